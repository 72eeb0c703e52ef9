"""The swimmer as a MuJoCo model: the independent check of the closed form, and its renderer."""

import os
import sys
import warnings
from typing import Any

import numpy as np

from ddopg.envs.tasks.swimmer.chain import DENSITY, FLUID_DENSITY, LENGTH, RADIUS, VISCOSITY, State, link
from ddopg.envs.tasks.swimmer.physics import STEP, TORQUE_LIMIT

WIDTH, HEIGHT = 600, 400

_XML = """
<mujoco model="swimmer">
  <compiler angle="degree" autolimits="true"/>
  <option timestep="{step}" integrator="Euler" density="{fluid}" viscosity="{viscosity}" iterations="1000">
    <flag warmstart="disable" contact="disable"/>
  </option>
  <visual>
    <global offwidth="{width}" offheight="{height}"/>
    <quality shadowsize="2048" offsamples="8"/>
    <headlight ambient=".38 .38 .38" diffuse=".28 .28 .28" specular=".1 .1 .1"/>
  </visual>
  <asset>
    <texture name="water" type="2d" builtin="checker" rgb1=".82 .90 .94" rgb2=".76 .86 .91"
             width="256" height="256" mark="edge" markrgb=".70 .81 .87"/>
    <material name="water" texture="water" texrepeat="1 1" texuniform="true" reflectance="0"/>
    <material name="head" rgba=".85 .33 .20 1" specular=".3" shininess=".4"/>
    <material name="body" rgba=".16 .36 .52 1" specular=".3" shininess=".4"/>
  </asset>
  <default>
    <geom type="capsule" size="{radius}" density="{density}" contype="0" conaffinity="0"/>
    <joint armature="0" damping="0" stiffness="0"/>
  </default>
  <worldbody>
    <light directional="true" castshadow="true" pos="0 0 4" dir=".25 .2 -1"
           diffuse=".38 .38 .38" specular=".1 .1 .1"/>
    <geom name="floor" type="plane" pos="0 0 -.15" size="40 40 .1" material="water"/>
    <body name="torso">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <joint name="heading" type="hinge" axis="0 0 1"/>
      {torso_inertial}
      <geom fromto="{head} 0 0 {neck} 0 0" material="head"/>
      <body name="mid" pos="{neck} 0 0">
        <joint name="bend2" type="hinge" axis="0 0 1" range="-100 100"/>
        {link_inertial}
        <geom fromto="0 0 0 -{length} 0 0" material="body"/>
        <body name="back" pos="-{length} 0 0">
          <joint name="bend3" type="hinge" axis="0 0 1" range="-100 100"/>
          {link_inertial}
          <geom fromto="0 0 0 -{length} 0 0" material="body"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="bend2" ctrllimited="true" ctrlrange="-{torque} {torque}"/>
    <motor joint="bend3" ctrllimited="true" ctrlrange="-{torque} {torque}"/>
  </actuator>
</mujoco>
"""


def xml(legacy_inertia: bool = True) -> str:
    """The model, with the links' legacy inertials, or with those MuJoCo derives from the geoms."""
    torso, other = (_inertial(LENGTH), _inertial(-LENGTH / 2)) if legacy_inertia else ("", "")
    return _XML.format(
        step=STEP,
        fluid=FLUID_DENSITY,
        viscosity=VISCOSITY,
        width=WIDTH,
        height=HEIGHT,
        radius=RADIUS,
        density=DENSITY,
        length=LENGTH,
        head=1.5 * LENGTH,
        neck=0.5 * LENGTH,
        torque=TORQUE_LIMIT,
        torso_inertial=torso,
        link_inertial=other,
    )


def _inertial(centre: float) -> str:
    body = link(legacy_inertia=True)
    across, axial = body.inertia, body.axial_inertia
    return f'<inertial pos="{centre} 0 0" mass="{body.mass}" diaginertia="{axial} {across} {across}"/>'


class Camera:
    """Looks at the swimmer through MuJoCo's renderer, or, where no OpenGL works, at a flat drawing of it.

    Nothing is set up before the first picture. The camera follows the torso frame's origin.
    """

    def __init__(self, legacy_inertia: bool = True) -> None:
        self._legacy_inertia = legacy_inertia
        self._scene: _Scene | None = None
        self._broken = False

    def paint(self, state: State) -> np.ndarray:
        """The state as an RGB image."""
        if self._scene is None and not self._broken:
            self._open()
        if self._scene is None:
            from ddopg.envs.tasks.swimmer.drawing import paint

            return paint(state)
        return self._scene.paint(state)

    def close(self) -> None:
        """Free the OpenGL context. A later picture opens a new one."""
        if self._scene is not None:
            self._scene.close()
        self._scene = None

    def _open(self) -> None:
        try:
            self._scene = _Scene(self._legacy_inertia)
        except Exception as reason:  # each OpenGL back-end fails in its own way
            self._broken = True
            warnings.warn(
                f"MuJoCo found no working OpenGL ({reason!r}), so the swimmer is drawn flat; to render "
                "in 3-D set MUJOCO_GL to egl, osmesa or glfw, whichever is installed",
                stacklevel=2,
            )


class _Scene:
    """An open OpenGL context with the model in it."""

    def __init__(self, legacy_inertia: bool) -> None:
        import mujoco

        self._mujoco = mujoco
        self._model = mujoco.MjModel.from_xml_string(xml(legacy_inertia))
        self._data = mujoco.MjData(self._model)
        self._window = _offscreen_window()
        self._window.make_current()
        self._context = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene, self._option = mujoco.MjvScene(self._model, maxgeom=100), mujoco.MjvOption()
        self._eye = mujoco.MjvCamera()
        self._eye.distance, self._eye.azimuth, self._eye.elevation = 4.8, 90, -62

    def paint(self, state: State) -> np.ndarray:
        mujoco, model, data = self._mujoco, self._model, self._data
        data.qpos[:] = state[:5]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_camlight(model, data)
        self._eye.lookat[:] = state.x, state.y, 0
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(model, data, self._option, None, self._eye, everything, self._scene)
        return self._photograph()

    def close(self) -> None:
        self._window.make_current()
        self._context.free()
        self._window.free()

    def _photograph(self) -> np.ndarray:
        frame, image = self._mujoco.MjrRect(0, 0, WIDTH, HEIGHT), np.empty((HEIGHT, WIDTH, 3), np.uint8)
        self._window.make_current()
        self._mujoco.mjr_render(frame, self._scene, self._context)
        self._mujoco.mjr_readPixels(image, None, frame, self._context)
        return image[::-1].copy()  # OpenGL counts rows from below


def _offscreen_window() -> Any:
    """MuJoCo's choice of OpenGL; without a display EGL, unless MUJOCO_GL asks for something else.

    MuJoCo reads MUJOCO_GL when first imported, which may be long ago, so EGL is asked for directly.
    """
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    usual = "egl" if sys.platform == "linux" and not display else ""
    if os.environ.get("MUJOCO_GL", usual) == "egl":
        from mujoco.egl import GLContext
    else:
        from mujoco import GLContext
    return GLContext(WIDTH, HEIGHT)
