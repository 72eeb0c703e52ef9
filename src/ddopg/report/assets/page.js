// Fills the page from the data. Everything from a run goes in as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const count = (n, one, many = `${one}s`) => `${whole.format(n)} ${n === 1 ? one : many}`;
const PURPOSES = ["design", "explore", "random", "check", "critic", "noisy", "added"];
let chosen = null; // { run, sample, line, distances, curve } of the run in detail

function nameGroup(group) {
  const changes = Object.keys(group.changes).length;
  return `${group.task}${group.policy ? ` · ${group.policy}` : ""} · ${group.preset}${changes ? ` with ${count(changes, "change")}` : ""}`;
}

function fillHeadline() {
  const tasks = [...new Set(data.groups.map((group) => group.task))];
  at("title").textContent = `DD-OPG on ${tasks.join(", ")}`;
  document.title = `ddopg report: ${tasks.join(", ")}`;
  at("subtitle").textContent = `${count(data.runs.length, "run")} in ${count(data.groups.length, "group")} · made ${data.made} by ddopg ${data.versions.ddopg}`;
}

/* ---- learning curves ---- */

function findLastValue(run) {
  const n = run.evaluations.mean.length;
  return n ? { mean: run.evaluations.mean[n - 1], std: run.evaluations.std[n - 1], steps: run.evaluations.steps[n - 1] } : null;
}

function pickCurve(run) {
  if (run.evaluations.steps.length) return { xs: run.evaluations.steps, ys: run.evaluations.mean, evaluated: true };
  return { xs: run.rollouts.steps, ys: run.rollouts.incumbent, evaluated: false };
}

function makeGroupCard(group) {
  const members = group.runs.map((i) => data.runs[i]);
  const host = element("div", { class: "chart" }), seedKey = element("div", { class: "legend seeds" }), key = element("div", { class: "legend" });
  const changes = Object.entries(group.changes).slice(0, 4).map(([name, [, value]]) => `${name} = ${spell(value)}`);
  const card = element("div", {}, element("h3", {}, nameGroup(group)), element("p", {}, count(group.runs.length, "seed")),
    changes.length ? element("p", {}, changes.join(" · ") + (Object.keys(group.changes).length > 4 ? " · …" : "")) : null,
    host, seedKey, key, ...describeGroup(group, members).map((words) => element("p", {}, words)));
  const draw = () => {
    card.hidden = !group.runs.some(matches);
    if (!card.hidden) drawGroup(group, host, seedKey, key, draw);
  };
  return { card, draw };
}

function drawGroup(group, host, seedKey, key, again) {
  const members = group.runs.map((i) => data.runs[i]);
  const peers = data.groups.filter((other) => other.task === group.task).flatMap((other) => other.runs).map((i) => data.runs[i]);
  const all = peers.map(pickCurve);
  const c = chart(host, { x: [0, Math.max(1, ...all.flatMap((v) => v.xs.filter(finite)))], y: domain([...all.flatMap((v) => v.ys), group.solved].filter(finite)),
    xLabel: "environment steps", yLabel: "mean return", label: `Learning curves of ${nameGroup(group)}. ${describeGroup(group, members).join(" ")}` });
  const points = [], together = group.together, colours = chooseColours(group);
  if (finite(group.solved)) line(c, c.x, [group.solved, group.solved], "goal");
  if (together) band(c, together.steps, together.low, together.high, "");
  for (const i of group.runs.filter(isShown)) {
    const run = data.runs[i], { xs, ys, evaluated } = pickCurve(run);
    line(c, ...steps(xs, ys), `seed ${colours.get(i)}${evaluated ? "" : " belief"}`).setAttribute("data-run", i);
    if (xs.length === 1) symbol(c, xs[0], ys[0], "explore");
    xs.forEach((x, k) => finite(ys[k]) && points.push({ x, y: ys[k], run: i, say: evaluated
      ? `seed ${run.seed}, ${text(x)} steps\nmean return ${withError(ys[k], run.evaluations.std[k])} (sd of ${text(run.evaluations.episodes[k])} episodes)\nworst ${text(run.evaluations.worst[k])}`
      : `seed ${run.seed}, ${text(x)} steps\nestimate of the learner ${text(ys[k])}` }));
  }
  if (together) line(c, together.steps, together.iqm, "iqm");
  c.onPoint = (point) => highlight(host, point && point.run);
  addTooltips(c, points);
  fillSeedKey(group, colours, host, seedKey, again);
  legend(key, [
    together && { kind: "iqm", label: `IQM of ${together.runs} seeds` }, together && { kind: "band", label: "its 95 % interval" },
    members.some((run) => !pickCurve(run).evaluated) && { kind: "belief", label: "estimate of the learner (never evaluated)" },
    finite(group.solved) && { kind: "goal", label: `solved: ${text(group.solved)}` }].filter(Boolean));
}

// One button per seed: it switches the curve off and on, and pointing at it makes the others pale.
function fillSeedKey(group, colours, host, seedKey, again) {
  const buttons = group.runs.filter(matches).map((i) => {
    const run = data.runs[i], worst = group.together && i === group.together.worst_run;
    const button = element("button", { type: "button", class: "seed-switch", "data-run": i, "aria-pressed": String(!hiddenRuns.has(run.directory)) },
      sampleOf(`seed ${colours.get(i)}`), `seed ${run.seed}${worst ? " (worst)" : ""}`);
    button.addEventListener("click", () => {
      hiddenRuns[hiddenRuns.has(run.directory) ? "delete" : "add"](run.directory);
      again(); keepView();
      seedKey.querySelector(`[data-run="${i}"]`).focus();
    });
    for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => highlight(host, i));
    for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => highlight(host, null));
    return button;
  });
  seedKey.replaceChildren(...buttons);
}

function highlight(host, index) {
  for (const node of host.querySelectorAll("[data-run]")) {
    node.classList.toggle("pale", index !== null && node.getAttribute("data-run") !== String(index));
    node.classList.toggle("lit", node.getAttribute("data-run") === String(index));
  }
}

// A seed has the same colour in every group; a seed that is there twice gets a second one. Beyond ten, lines are dashed.
function chooseColours(group) {
  const known = [...new Set(data.runs.map((run) => run.seed))].sort((a, b) => a - b), taken = new Set(), colours = new Map();
  for (const i of group.runs) {
    let place = known.indexOf(data.runs[i].seed);
    while (taken.has(place)) place += known.length;
    taken.add(place);
    colours.set(i, `c${place % COLOURS} d${Math.floor(place / COLOURS) % 4}`);
  }
  return colours;
}

/* ---- what the reader wants to see ---- */

const COLOURS = 10;
const hiddenRuns = new Set(); // directories whose curves are switched off
const isShown = (i) => matches(i) && !hiddenRuns.has(data.runs[i].directory);

function matches(index) {
  const run = data.runs[index], said = `${run.task} ${run.preset} ${Object.keys(run.changes).join(" ")} seed ${run.seed} ${run.directory}`.toLowerCase();
  return at("filter").value.toLowerCase().split(/\s+/).every((word) => (/^\d+$/.test(word) ? String(run.seed) === word : said.includes(word)));
}

function applyFilter() {
  const found = data.groups.flatMap((group) => group.runs).filter(matches);
  at("filter-said").textContent = at("filter").value.trim() ? `${text(found.length)} of ${count(data.runs.length, "run")}` : "";
  fillRunsTable();
  fillRunChoice();
  if (found.length && data.runs[found[0]] && !found.includes(data.runs.indexOf(chosen.run))) choose(found[0]);
  redraw();
}

function fillRunChoice() {
  const before = at("run").value;
  at("run").replaceChildren(...data.groups.flatMap((group) => group.runs.filter(matches).map((i) => element("option", { value: i }, `${nameGroup(group)} · seed ${data.runs[i].seed} · ${data.runs[i].directory}`))));
  if ([...at("run").options].some((option) => option.value === before)) at("run").value = before;
}

function describeGroup(group, members) {
  const words = [], t = group.together;
  if (t) {
    words.push(`At ${text(t.at)} steps: IQM ${withInterval(t.iqm_last, t.interval)}, mean ${withError(t.mean, t.sd)} (sd over seeds), worst seed ${data.runs[t.worst_run].seed} with ${text(t.worst)}.`);
    if (t.solved_runs !== null) words.push(`Solved on ${t.solved_runs} of ${t.runs} seeds${finite(t.median_steps) ? `, median ${text(t.median_steps)} steps` : ""}.`);
  } else {
    for (const run of members) {
      const last = findLastValue(run);
      words.push(last ? `Seed ${run.seed} at ${text(last.steps)} steps: ${withError(last.mean, last.std)} (sd over episodes).` : `Seed ${run.seed}: never evaluated on fresh episodes.`);
    }
    words.push("No interval: fewer than three seeds with evaluations in common.");
  }
  if (group.twice.length) words.push(`Seed ${group.twice.join(", ")} is there more than once: these runs are not independent.`);
  if (group.versions.length > 1) words.push(`Begun by different versions of ddopg: ${group.versions.join(", ")}.`);
  return words;
}

function fillRunsTable() {
  const rows = data.runs.filter((_, i) => matches(i)).map((run) => {
    const last = findLastValue(run);
    return [run.directory, run.task, run.preset, run.seed, text(run.steps), text(run.rollout_count), last ? withError(last.mean, last.std) : "–"];
  });
  fillTable(at("runs-table"), ["run", "task", "preset", "seed", "steps", "rollouts", "last evaluation"], rows, 3);
}

function fillTable(host, head, rows, numbersFrom = 99) {
  const cells = (kind, values) => element("tr", {}, ...values.map((value, i) => element(kind, { class: i >= numbersFrom ? "number" : null }, String(value))));
  host.replaceChildren(element("thead", {}, cells("th", head)), element("tbody", {}, ...rows.map((row) => cells("td", row))));
}

/* ---- one run ---- */

function choose(index) {
  const run = data.runs[index], section = run.section;
  chosen = { run, section, sample: section.missing ? null : readSample(section) };
  fillFacts(run); fillParameters(run); describeRollouts(run); fillVideo(run); fillConfiguration(run); fillReproduction(run);
  at("memory-body").hidden = at("section-body").hidden = Boolean(section.missing);
  if (section.missing) {
    at("memory-words").textContent = at("section-words").textContent = section.missing;
  } else {
    at("direction").replaceChildren(...section.lines.map((l, i) => element("option", { value: i }, l.label)));
    at("sigma").value = 0;
    fillFineprint(run);
    chooseDirection(0);
  }
  redraw();
}

function fillFacts(run) {
  const last = findLastValue(run), entries = [
    [last ? withError(last.mean, last.std) : "–", last ? "last evaluation, mean ± sd over episodes" : "never evaluated on fresh episodes"],
    [text(run.incumbent), "estimate of the learner"], [text(run.rollout_count), "rollouts"], [text(run.steps), "environment steps"],
    [text(run.parameters), "policy parameters"], [String(run.seed), "seed"]];
  at("facts").replaceChildren(...entries.map(([value, name]) => element("div", {}, element("b", {}, value), element("span", {}, name))));
  const notice = [run.recipe.kind === "shell" ? run.recipe.remark : "", run.failure_count ? `${count(run.failure_count, "rollout")} failed and were not learnt from; the first: ${run.failures[0]}` : ""].filter(Boolean).join(" ");
  at("notice").hidden = !notice;
  at("notice").textContent = notice;
}

/* ---- the parameters of a controller ---- */

const withUnit = (value, unit) => (unit ? `${text(value)} ${unit}` : text(value));

function describeBounds(p) {
  const [low, high] = p.bounds;
  if (low === null && high === null) return "none";
  return `${low === null ? "−∞" : text(low)} to ${high === null ? "∞" : text(high)}`;
}

function describeSearch(p) {
  if (p.fixed) return "fixed";
  return `${p.log ? "free, log" : "free"}${p.at_bound ? `; at its ${p.at_bound} bound` : ""}`;
}

function fillParameters(run) {
  const { parameters = [], drawn = [] } = run.controller;
  at("controller").hidden = !parameters.length;
  if (!parameters.length) return;
  const free = parameters.filter((p) => !p.fixed).length, ends = parameters.filter((p) => p.at_bound).map((p) => p.name);
  at("controller-words").textContent = `The incumbent’s parameters in real units, and those of every rollout; strong symbols are the rollouts with the highest returns.${drawn.length < free ? ` Of ${free} free parameters, the first ${drawn.length} are drawn.` : ""}${ends.length ? ` At a bound: ${ends.join(", ")}. If the machine allows it, a new run with wider bounds may do better.` : ""}`;
  fillTable(at("controller-table"), ["parameter", "incumbent", "unit", "start", "bounds", "search"],
    parameters.map((p) => [p.name, text(p.value), p.unit || "–", text(p.start), describeBounds(p), describeSearch(p)]));
  at("controller-charts").replaceChildren(...drawn.map(() => element("div", { class: "chart" })));
}

function drawParameters(run) {
  const { parameters, drawn = [] } = run.controller, r = run.rollouts, hosts = at("controller-charts").children;
  if (!drawn.length) return;
  const order = [...r.return.keys()].sort((i, j) => r.return[i] - r.return[j]), rank = new Map(order.map((i, place) => [i, (place + 1) / order.length]));
  drawn.forEach(({ parameter, values }, k) => {
    const p = parameters[parameter];
    const c = chart(hosts[k], { x: [0.5, run.rollout_count + 0.5], y: domain([...values, p.value, p.start]), height: 190, xLabel: "rollout",
      yLabel: p.unit ? `${p.name}, ${p.unit}` : p.name, label: `${p.name} in ${count(run.rollout_count, "rollout")}; the incumbent has ${withUnit(p.value, p.unit)}` });
    line(c, c.x, [p.start, p.start], "here");
    line(c, c.x, [p.value, p.value], "middle");
    r.number.forEach((n, i) => symbol(c, n, values[i], r.purpose[i], { opacity: fade(rank.get(i) ** 4) }));
    addTooltips(c, r.number.map((n, i) => ({ x: n, y: values[i], say: `rollout ${n}: ${namePurpose(run, r.purpose[i])}\n${p.name} = ${withUnit(values[i], p.unit)}\nreturn ${text(r.return[i])}` })));
  });
  legend(at("controller-legend"), [...listPurposes(run, r.purpose), { kind: "middle", label: "incumbent" }, { kind: "here", label: "start" }]);
}

function describeRollouts(run) {
  const { number } = run.rollouts;
  const thin = number.length < run.rollout_count ? ` Of ${text(run.rollout_count)} rollouts, ${text(number.length)} evenly spread ones are drawn.` : "";
  at("rollouts-words").textContent = `The return of every rollout, by purpose. ${explainExploration(run)}${thin}`;
}

function explainExploration(run) {
  if (run.by_process) return "The Gaussian process proposes where it expects an improvement; some proposals lie far below the incumbent.";
  return run.config.exploration.noise ? "Rollouts around the centre are perturbed, so they tend to lie below the incumbent." : "";
}

function drawRollouts(run) {
  const r = run.rollouts, e = run.evaluations;
  const c = chart(at("rollouts-chart"), { x: [0, 1.01 * Math.max(...r.steps)], y: domain([...r.return, ...e.mean]), height: 300,
    xLabel: "environment steps", yLabel: "return", label: `Returns of ${run.rollout_count} rollouts; best ${text(Math.max(...r.return))}` });
  line(c, ...steps(r.steps, r.incumbent), "belief");
  if (e.steps.length) line(c, ...steps(e.steps, e.mean), "middle");
  r.steps.forEach((x, i) => symbol(c, x, r.return[i], r.purpose[i], { opacity: 0.85 }));
  addTooltips(c, r.steps.map((x, i) => ({ x, y: r.return[i], say: `rollout ${r.number[i]}: ${namePurpose(run, r.purpose[i])}\nreturn ${text(r.return[i])}, ${text(r.length[i])} steps long` })));
  legend(at("rollouts-legend"), [...listPurposes(run, r.purpose),
    { kind: "belief", label: "the learner’s estimate of its incumbent" }, e.steps.length && { kind: "middle", label: "incumbent on fresh episodes" }].filter(Boolean));
}

function namePurpose(run, purpose) {
  const names = { design: "initial design", explore: nameExploration(run),
    random: "random policy", check: "re-check of the average", critic: "actor of the critic", noisy: "actor of the critic, with noise", added: "added from outside" };
  return names[purpose] || purpose;
}

function nameExploration(run) {
  if (run.by_process) return "proposed by the Gaussian process";
  return run.config.exploration.noise ? "around the centre" : "centre of the search";
}

function listPurposes(run, list) {
  return PURPOSES.filter((purpose) => list.includes(purpose)).map((purpose) => ({ purpose, label: namePurpose(run, purpose) }));
}

function findPurpose(run, number) {
  const i = run.rollouts.number.indexOf(number);
  return i < 0 ? "explore" : run.rollouts.purpose[i];
}

/* ---- memory and surrogate ---- */

function drawMemory({ run, section, sample, curves, middle }) {
  const belief = curves.run[middle], top = [...belief.weights.keys()].sort((i, j) => belief.weights[j] - belief.weights[i]);
  let sum = 0;
  const most = top.findIndex((i) => (sum += belief.weights[i]) >= 0.9) + 1;
  at("memory-words").textContent = `Weights of the stored trajectories for the incumbent, at the run’s Σ. Of ${count(run.rollout_count, "rollout")}, ${section.selected} are in the surrogate now${describeDraws(section)}${describeCut(section)}; ${most === 1 ? "one of them carries" : `${most} of them carry`} 90 % of the weight. ESS is ${formatEss(belief.ess)} of ${countDraws(section)}.`;
  const x = [0.5, run.rollout_count + 0.5], r = run.rollouts, left = 60;
  const c = chart(at("memory-returns"), { x, y: domain(r.return), height: 190, left, xLabel: "rollout", yLabel: "return", label: "Returns of all rollouts; those with weight for the incumbent stand out" });
  const share = new Map(section.rollouts.map((n, i) => [n, belief.weights[i]])), heaviest = Math.max(...belief.weights);
  r.number.forEach((n, i) => symbol(c, n, r.return[i], r.purpose[i], { opacity: share.has(n) ? fade(share.get(n) / heaviest) : 0.08 }));
  addTooltips(c, r.number.map((n, i) => ({ x: n, y: r.return[i], say: `rollout ${n}: ${namePurpose(run, r.purpose[i])}\nreturn ${text(r.return[i])}\n${share.has(n) ? `weight ${formatPercent(share.get(n))}` : "not in the surrogate"}` })));
  drawWeights(at("memory-chart"), belief, run, section, x, 210, left);
  legend(at("memory-legend"), listPurposes(run, r.purpose));
  fillTable(at("memory-table"), ["rollout", "purpose", "return", "weight"], top.slice(0, 8).map((i) =>
    [section.rollouts[i], namePurpose(run, findPurpose(run, section.rollouts[i])), text(sample.returns[i]), formatPercent(belief.weights[i])]), 2);
}

const formatPercent = (share) => `${(100 * share).toFixed(1)} %`;
const fade = (share) => 0.15 + 0.85 * Math.sqrt(share);

const countDraws = (section) => section.counts.reduce((a, b) => a + b, 0);

function describeDraws(section) {
  return section.counts.some((k) => k > 1) ? ` (drawn ${countDraws(section)} times in all)` : "";
}

function describeCut(section) {
  return section.rollouts.length < section.selected ? ` (this page has the ${section.rollouts.length} of the largest weight)` : "";
}

function drawWeights(host, belief, run, section, x, height, left = null) {
  const c = chart(host, { x, y: [0, 1.08 * Math.max(...belief.weights)], height, left, xLabel: "rollout", yLabel: "share of the weight",
    label: `Weights of ${section.rollouts.length} trajectories; the largest is ${formatPercent(Math.max(...belief.weights))}` });
  const breadth = Math.max(1.5, Math.min(14, 0.75 * (c.X(1) - c.X(0))));
  section.rollouts.forEach((n, i) => bar(c, n, belief.weights[i], findPurpose(run, n), breadth));
  addTooltips(c, section.rollouts.map((n, i) => ({ x: n, y: belief.weights[i], wide: true, say: `rollout ${n}: ${namePurpose(run, findPurpose(run, n))}\nweight ${formatPercent(belief.weights[i])}${section.counts[i] > 1 ? ` (drawn ${section.counts[i]} times)` : ""}\nreturn ${text(section.returns[i])}` })));
}

// Another direction: unpack its distances; the curve at the run's own Σ is kept for the memory's picture.
function chooseDirection(index) {
  const line = chosen.section.lines[index];
  chosen.line = line;
  chosen.t = Array.from({ length: line.points }, (_, i) => line.extent * (2 * i / (line.points - 1) - 1));
  chosen.middle = (line.points - 1) / 2;
  chosen.distances = decodeArray(line.distances);
  chosen.curves = { run: estimateAlong(chosen.sample, chosen.distances, chosen.section.sigma) };
  at("place").max = line.points - 1;
  at("place").value = chosen.middle;
  compute();
}

function readSigma() {
  return chosen.section.sigma * Math.exp(Number(at("sigma").value) / 20);
}

function compute() {
  chosen.sigma = readSigma();
  chosen.curve = estimateAlong(chosen.sample, chosen.distances, chosen.sigma);
  const said = formatSigma(chosen.sigma, chosen.section.base);
  at("sigma-back").disabled = Number(at("sigma").value) === 0;
  at("sigma-said").textContent = said;
  at("sigma").setAttribute("aria-valuetext", said);
}

// log Σ as in the paper, in units of the action, where all its dimensions have one.
function formatSigma(sigma, base) {
  if (base.some((unit) => unit !== base[0])) return `σ = ${text(sigma)}`;
  const plain = sigma * base[0], unit = base[0] === 1 ? "" : ` (${text(plain)} in units of the action)`;
  return `σ = ${text(sigma)}${unit}, log Σ = ${(2 * Math.log(plain)).toFixed(2).replace("-", "−")}`;
}

function drawSection() {
  const { line: l, t, section, sample, curve, run } = chosen, here = Number(at("place").value), belief = curve[here];
  const span = Math.max(...sample.returns) - Math.min(...sample.returns) || Math.abs(sample.returns[0]) || 1;
  const y = [Math.min(...sample.returns) - 0.6 * span, Math.max(...sample.returns) + 0.12 * span];
  const c = chart(at("section-chart"), { x: [t[0], t[t.length - 1]], y, height: 340, left: 60, xLabel: "distance t from the incumbent", yLabel: "return",
    label: `Surrogate ${l.label}: estimate ${text(belief.mean)} at t = ${text(t[here])}` });
  const values = (name) => curve.map((b) => b[name]);
  const mean = values("mean"), deviation = values("deviation");
  band(c, t, mean.map((m, i) => m - deviation[i]), mean.map((m, i) => m + deviation[i]), "");
  const heaviest = Math.max(...belief.weights);
  sample.returns.forEach((value, i) => symbol(c, l.at[i], value, findPurpose(run, section.rollouts[i]), { size: 4, opacity: fade(belief.weights[i] / heaviest) }));
  line(c, t, values("lower"), "low", "lower-curve");
  if (l.own) line(c, t, l.own, "own");
  line(c, t, mean, "middle", "mean-curve");
  line(c, [t[here], t[here]], y, "here");
  for (const mark of l.marks) {
    const anchor = c.X(mark.t) > 0.8 * c.width ? "end" : "middle";
    c.plot.append(shape("line", { class: "aim", x1: c.X(mark.t), x2: c.X(mark.t), y1: c.top, y2: c.height - c.bottom }));
    c.svg.append(shape("text", { class: "written", x: anchor === "end" ? c.width - 2 : c.X(mark.t), y: 16, "text-anchor": anchor }, mark.label));
  }
  const inside = sample.returns.map((value, i) => ({ x: l.at[i], y: value, say: `rollout ${section.rollouts[i]}: ${namePurpose(run, findPurpose(run, section.rollouts[i]))}\nreturn ${text(value)}, weight ${formatPercent(belief.weights[i])}\n${text(l.off[i])} away from the line` })).filter((p) => p.x >= c.x[0] && p.x <= c.x[1]);
  addTooltips(c, inside);
  drawEss(values("ess"), here);
  drawWeights(at("weights-chart"), belief, run, section, [Math.min(...section.rollouts) - 0.5, Math.max(...section.rollouts) + 0.5], 340);
  fillSectionWords(belief, inside.length, here);
}

function drawEss(ess, here) {
  const { t, section } = chosen;
  const c = chart(at("ess-chart"), { x: [t[0], t[t.length - 1]], y: [0, Math.max(2, 1.1 * Math.max(...ess))], height: 150, left: 60, xLabel: "distance t from the incumbent", yLabel: `ESS, of ${countDraws(section)}`, label: `Effective sample size along the line; ${formatEss(ess[here])} at the place chosen` });
  line(c, t, ess, "middle", "ess-curve");
  line(c, [t[here], t[here]], c.y, "here");
  addTooltips(c, t.map((x, i) => ({ x, y: ess[i], wide: true, say: `t = ${text(x)}: ESS ${formatEss(ess[i])}` })));
}

function fillSectionWords(belief, inside, here) {
  const { t, section, line: l } = chosen;
  at("said-mean").textContent = text(belief.mean);
  at("said-deviation").textContent = text(belief.deviation);
  at("said-lower").textContent = text(belief.lower);
  at("said-ess").textContent = formatEss(belief.ess);
  at("lower-name").textContent = `lower bound, δ = ${section.delta}`;
  at("ess-name").textContent = `ESS, of ${countDraws(section)}`;
  const said = here === chosen.middle ? "t = 0: the incumbent" : `t = ${text(t[here])}`;
  at("place-back").disabled = here === chosen.middle;
  at("place-said").textContent = said;
  at("place").setAttribute("aria-valuetext", said);
  at("weights-words").textContent = "Weights of the trajectories at the place chosen, at the Σ chosen.";
  legend(at("section-legend"), [{ kind: "middle", label: "Ĵ" }, { kind: "band", label: "± sd of the return" }, { kind: "low", label: "lower bound" },
    l.own && { kind: "own", label: "Ĵ of the run itself, at its own Σ" }, { purpose: "explore", label: `rollouts, projected onto the line; the stronger, the more weight (${inside} of ${section.rollouts.length} in view)` }].filter(Boolean));
}

function fillFineprint(run) {
  const s = run.config.surrogate, section = run.section, n = section.rollouts.length;
  at("section-words").textContent = "The return that the stored trajectories predict for other policies. With a small Σ, a return counts only for nearly the same actions; with a large Σ, all policies get the average. The sliders recompute the estimate.";
  const unit = section.squashed ? "half the range of the action" : "the action";
  const sigma = s.ess_share ? `from the data: ESS at the centre of the search is ${s.ess_share} of the trajectories, which now gives σ = ${text(section.sigma)}` : `given: σ = ${text(section.sigma)}`;
  const items = [
    `Shown is the paper’s estimator for whole trajectories, Eqs. (14) and (15), self-normalised (Z = Σw), on ${count(n, "trajectory", "trajectories")}${describeDraws(section)}${section.rollouts.length < section.selected ? ` (of ${section.selected}: those of the largest weight at the incumbent)` : ""} with their returns as they were. Actions are compared at the times at which the run compares them${s.decisions ? ` (up to ${s.decisions} per episode)` : " (every step)"}.`,
    `Σ = σ² · diag(${section.base.map(text).join(", ")})²; σ is in units of ${unit}. The run’s own Σ is ${sigma}.`,
    `Lower bound: Eq. (19), Ĵ − ‖R‖∞ √((1−δ)/(δ·ESS)), δ = ${section.delta}, ‖R‖∞ = ${text(section.bound)}. ± sd is the spread of single returns, as in Fig. 1, not the error of Ĵ.`,
    section.lines[0].own ? `The run itself estimates otherwise${describeDifference(s)}; the dotted line is its own Ĵ at its own Σ, computed when this page was made.` : "The run itself uses this very estimator.",
    `Distances along the line are measured ${run.config.search.scale_by_sensitivity ? "by what parameters change of the policy’s raw output" : "in plain parameters"}. A rollout drawn here may lie far beside the line: its tooltip says how far.`,
    run.environment === null ? "" : "The true return along the line is not shown: it would need new rollouts."];
  at("section-fine").replaceChildren(element("ul", {}, ...items.filter(Boolean).map((item) => element("li", {}, item))));
}

// In what the run's own surrogate differs from the estimator of this page. Estimators go by their names: a new one
// needs no word here.
function describeDifference(s) {
  const parts = [s.estimator === "weighted" ? "" : `with the estimator “${s.estimator}”`, s.decisions ? "with weights per decision" : "",
    s.initial_state_correction ? "on rewards less the effect of the start" : "", s.epsilon ? `with ε = ${s.epsilon} in every denominator` : ""].filter(Boolean);
  return parts.length ? `, ${parts.join(", ")}` : " on more trajectories";
}

/* ---- video, configuration, reproduction ---- */

function fillVideo(run) {
  const v = run.video, host = at("video");
  if (v.content) {
    const what = `The policy of seed ${run.seed} in ${run.task}`;
    host.replaceChildren(v.kind.startsWith("image") ? element("img", { src: v.content, alt: what }) : element("video", { src: v.content, controls: "", loop: "", muted: "", playsinline: "", "aria-label": what }),
      element("p", { class: "quiet" }, `${v.name}, ${text(v.size / 1e6)} MB, from the run’s directory.`));
    return;
  }
  const words = v.name ? `${v.name} has ${text(v.size / 1e6)} MB; up to ${text(v.limit / 1e6)} MB are taken into a page.` : "There is no video in the run’s directory. To add one, write it and make the report again:";
  const parts = [element("p", {}, run.environment === null ? "There is no video in the run’s directory, and no environment to play in." : words)];
  if (!v.name && run.environment !== null) parts.push(element("pre", { tabindex: "0" }, element("code", {}, run.recipe.play)));
  host.replaceChildren(...parts);
}

function spell(value) {
  return Array.isArray(value) ? `(${value.map(spell).join(", ")})` : typeof value === "number" ? String(value) : JSON.stringify(value).replaceAll('"', "");
}

function fillConfiguration(run) {
  const changes = Object.entries(run.changes);
  at("config-words").textContent = changes.length ? `The preset “${run.preset}” with ${count(changes.length, "change")}:` : `The preset “${run.preset}”, nothing changed.`;
  at("config-changes").hidden = !changes.length;
  fillTable(at("config-changes"), ["setting", run.preset, "this run"], changes.map(([name, [usual, value]]) => [name, spell(usual), spell(value)]));
  const p = run.problem, rows = [["environment", run.environment === null ? "none" : run.environment], ["horizon", text(p.horizon)], ["observation", count(p.observation_size, "number")],
    ["action", `${count(p.low.length, "number")}, from (${p.low.map(text).join(", ")}) to (${p.high.map(text).join(", ")})`]];
  for (const [part, values] of Object.entries(run.config)) {
    if (typeof values === "object") rows.push(...Object.entries(values).map(([name, value]) => [`${part}.${name}`, spell(value)]));
    else rows.push([part, spell(values)]);
  }
  fillTable(at("config-all"), ["setting", "value"], rows);
}

function fillReproduction(run) {
  const words = run.recipe.kind === "shell" ? "The same seed, configuration, version and machine give a bit-identical run." : run.recipe.remark;
  at("reproduce-words").textContent = `${words} The run was begun by ddopg ${run.version} and is in ${run.directory}.`;
  at("recipe").textContent = run.recipe.text;
  const list = Object.entries(data.versions).map(([name, value]) => `${name} ${value}`).join(", ");
  at("versions").textContent = `This page was made by ${data.command} with ${list}. A run records its version of ddopg, not those of the other packages.`;
}

/* ---- all together ---- */

const cards = data.groups.map(makeGroupCard);

function redraw() {
  tip(null);
  cards.forEach(({ draw }) => draw());
  drawParameters(chosen.run);
  drawRollouts(chosen.run);
  if (chosen.sample) { drawMemory(chosen); drawSection(); }
}

function begin() {
  fillHeadline();
  at("groups").replaceChildren(...cards.map(({ card }) => card));
  at("filter-row").hidden = data.runs.length < 2;
  at("filter").addEventListener("input", () => { applyFilter(); keepView(); });
  restoreFilter();
  fillRunsTable();
  fillRunChoice();
  at("run").addEventListener("change", () => { choose(Number(at("run").value)); keepView(); });
  at("direction").addEventListener("change", () => { chooseDirection(Number(at("direction").value)); drawSection(); });
  at("sigma").addEventListener("input", () => { compute(); drawSection(); });
  at("place").addEventListener("input", drawSection);
  at("sigma-back").addEventListener("click", () => { at("sigma").value = 0; compute(); drawSection(); });
  at("place-back").addEventListener("click", () => { at("place").value = chosen.middle; drawSection(); });
  choose(Number(at("run").value || data.groups[0].runs[0]));
  restoreDetails();
  let breadth = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth !== breadth) { breadth = window.innerWidth; redraw(); } });
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((node) => { node.open = true; }));
}

/* ---- a page that is served while runs go on ---- */

const VIEW = "ddopg-view";
const DETAILS = ["direction", "place", "sigma"];

// Kept for this tab alone, so that a reload shows what was looked at.
function keepView() {
  if (!data.watch) return;
  const details = Object.fromEntries(DETAILS.map((id) => [id, at(id).value]));
  sessionStorage.setItem(VIEW, JSON.stringify({ run: chosen.run.directory, filter: at("filter").value, hidden: [...hiddenRuns], details }));
}

function readView() {
  try { return (data.watch && JSON.parse(sessionStorage.getItem(VIEW))) || {}; } catch { return {}; }
}

function restoreFilter() {
  const view = readView();
  at("filter").value = view.filter || "";
  (view.hidden || []).forEach((directory) => hiddenRuns.add(directory));
}

function restoreDetails() {
  const view = readView(), index = data.runs.findIndex((run) => run.directory === view.run);
  if (index < 0 || !matches(index)) return;
  at("run").value = index;
  choose(index);
  if (!view.details || !chosen.sample) return;
  at("direction").value = view.details.direction;
  chooseDirection(Math.max(0, at("direction").selectedIndex));
  for (const id of ["place", "sigma"]) at(id).value = view.details[id];
  compute();
  drawSection();
}

function watch() {
  at("watch").hidden = !data.watch;
  if (!data.watch) return;
  document.addEventListener("change", keepView);
  const reload = () => { if (!at("pause").checked) { keepView(); location.reload(); } };
  at("watch-said").textContent = `Live: reloaded every ${text(data.watch)} seconds.`;
  setInterval(reload, 1000 * data.watch);
}

begin();
watch();
