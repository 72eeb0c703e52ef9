/* The objective and its gradient by hand, float32, one thread: what is possible on this machine.
 *
 * Networks of tanh layers with a linear output, or linear ones. Two passes over the trajectories: squared distances
 * first, then the gradient of each, weighed by what the objective wants. A trajectory is handled in blocks of LANES
 * steps, feature by feature, so that every inner loop runs over LANES neighbouring numbers and all activations stay in
 * the first caches.
 */
#include <math.h>
#include <string.h>

#define LANES 64
#define WIDEST 64
#define DEEPEST 4

typedef float block[WIDEST][LANES];

static inline float tanh_of(float x) { return tanhf(x); }

/* Activations of a block: x[0] is the input, x[l + 1] the output of layer l. */
static void forward(const float *theta, const int *sizes, int layers, block *x) {
  for (int l = 0; l < layers; l++) {
    const int rows = sizes[l], columns = sizes[l + 1];
    const float *weights = theta, *bias = theta + rows * columns;
    theta += (rows + 1) * columns;
    for (int c = 0; c < columns; c++) {
      float sum[LANES];
      for (int k = 0; k < LANES; k++) sum[k] = bias[c];
      for (int r = 0; r < rows; r++) {
        const float w = weights[r * columns + c];
        for (int k = 0; k < LANES; k++) sum[k] += w * x[l][r][k];
      }
      if (l < layers - 1)
        for (int k = 0; k < LANES; k++) x[l + 1][c][k] = tanh_of(sum[k]);
      else
        for (int k = 0; k < LANES; k++) x[l + 1][c][k] = sum[k];
    }
  }
}

/* gradient += ∂/∂θ of the block, given d = ∂/∂output in `slope`, which is overwritten. */
static void backward(const float *theta, const int *sizes, int layers, block *x, block slope, float *gradient) {
  int offset = 0;
  for (int l = 0; l < layers; l++) offset += (sizes[l] + 1) * sizes[l + 1];
  for (int l = layers - 1; l >= 0; l--) {
    const int rows = sizes[l], columns = sizes[l + 1];
    offset -= (rows + 1) * columns;
    const float *weights = theta + offset;
    float *to_weights = gradient + offset, *to_bias = to_weights + rows * columns;
    for (int c = 0; c < columns; c++) {
      float sum = 0;
      for (int k = 0; k < LANES; k++) sum += slope[c][k];
      to_bias[c] += sum;
    }
    block below;
    for (int r = 0; r < rows; r++) {
      float back[LANES];
      memset(back, 0, sizeof back);
      for (int c = 0; c < columns; c++) {
        const float w = weights[r * columns + c];
        float sum = 0;
        for (int k = 0; k < LANES; k++) {
          sum += x[l][r][k] * slope[c][k];
          back[k] += w * slope[c][k];
        }
        to_weights[r * columns + c] += sum;
      }
      for (int k = 0; k < LANES; k++) below[r][k] = back[k] * (1 - x[l][r][k] * x[l][r][k]);
    }
    if (l > 0) memcpy(slope, below, rows * sizeof below[0]);
  }
}

static int load(block out, const float *from, int width, int first, int horizon) {
  const int number = horizon - first < LANES ? horizon - first : LANES;
  for (int f = 0; f < width; f++) {
    for (int k = 0; k < number; k++) out[f][k] = from[(long)(first + k) * width + f];
    for (int k = number; k < LANES; k++) out[f][k] = 0;
  }
  return number;
}

/* steps of θ ← θ + rate ∇value(θ). work: trajectories + parameters floats. */
void climb(float *theta, const float *observations, const float *actions, const float *returns, const float *log_q,
           float scale, const int *sizes, int layers, int trajectories, int horizon, int parameters, int steps,
           float penalty, float rate, float *work) {
  const int inputs = sizes[0], outputs = sizes[layers];
  const float precision = 1 / (scale * scale);
  float *share = work, *gradient = work + trajectories;
  static block x[DEEPEST + 1], goal;
  for (int step = 0; step < steps; step++) {
    for (int i = 0; i < trajectories; i++) {
      double distance = 0;
      for (int t = 0; t < horizon; t += LANES) {
        load(x[0], observations + (long)i * horizon * inputs, inputs, t, horizon);
        const int number = load(goal, actions + (long)i * horizon * outputs, outputs, t, horizon);
        forward(theta, sizes, layers, x);
        for (int a = 0; a < outputs; a++) {
          float sum = 0;
          for (int k = 0; k < number; k++) {
            const float apart = goal[a][k] - x[layers][a][k];
            sum += apart * apart;
          }
          distance += sum;
        }
      }
      share[i] = (float)(-0.5 * distance * precision) - log_q[i];
    }
    float largest = share[0], sum = 0, squares = 0, mean = 0;
    for (int i = 1; i < trajectories; i++) largest = share[i] > largest ? share[i] : largest;
    for (int i = 0; i < trajectories; i++) sum += share[i] = expf(share[i] - largest);
    for (int i = 0; i < trajectories; i++) {
      share[i] /= sum;
      squares += share[i] * share[i];
      mean += share[i] * returns[i];
    }
    const float root = sqrtf(squares);
    memset(gradient, 0, parameters * sizeof *gradient);
    for (int i = 0; i < trajectories; i++) {
      /* ∂value/∂log wᵢ */
      const float wish = share[i] * (returns[i] - mean) - penalty * share[i] * (share[i] - squares) / root;
      for (int t = 0; t < horizon; t += LANES) {
        load(x[0], observations + (long)i * horizon * inputs, inputs, t, horizon);
        const int number = load(goal, actions + (long)i * horizon * outputs, outputs, t, horizon);
        forward(theta, sizes, layers, x);
        block slope;
        for (int a = 0; a < outputs; a++)
          for (int k = 0; k < LANES; k++)
            slope[a][k] = k < number ? wish * precision * (goal[a][k] - x[layers][a][k]) : 0;
        backward(theta, sizes, layers, x, slope, gradient);
      }
    }
    for (int p = 0; p < parameters; p++) theta[p] += rate * gradient[p];
  }
}
