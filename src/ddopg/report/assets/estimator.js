"use strict";

// The surrogate for whole trajectories, Eqs. (14), (15), (17) and (19) of the paper, self-normalised (Z = sum of w).
// A sample holds N trajectories: `between` (N x N) squared distances of each policy (row) to each trajectory's actions
// (column), `counts`, `returns`, `bound` (largest |R|) and `delta`. A squared distance D gives the log-likelihood
// -D / (2 sigma^2); what is missing of it cancels. Everything stays in logarithms until the last line.

function decodeArray(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float64Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

function logSumExp(values, counts) {
  let largest = -Infinity;
  values.forEach((value, i) => { if (counts[i] > 0 && value > largest) largest = value; });
  let sum = 0;
  values.forEach((value, i) => { if (counts[i] > 0) sum += counts[i] * Math.exp(value - largest); });
  return largest + Math.log(sum);
}

// log q of each trajectory: the mixture of all policies, the denominator of Eq. (15).
function logMixture(sample, sigma) {
  const n = sample.counts.length;
  const total = sample.counts.reduce((a, b) => a + b, 0);
  return Float64Array.from({ length: n }, (_, trajectory) => {
    const column = Array.from({ length: n }, (_, policy) => -sample.between[policy * n + trajectory] / (2 * sigma * sigma));
    return logSumExp(column, sample.counts) - Math.log(total);
  });
}

// What the sample says about one policy, whose squared distances to the N trajectories are given.
function estimate(sample, logQ, distances, sigma) {
  const { counts, returns, bound, delta } = sample;
  const logW = Array.from(distances, (d, i) => -d / (2 * sigma * sigma) - logQ[i]);
  const logZ = logSumExp(logW, counts);
  const single = logW.map((value) => Math.exp(value - logZ)); // the share of one draw
  const weights = single.map((share, i) => counts[i] * share);
  const mean = weights.reduce((sum, w, i) => sum + w * returns[i], 0);
  const variance = weights.reduce((sum, w, i) => sum + w * (returns[i] - mean) ** 2, 0);
  const ess = 1 / single.reduce((sum, share, i) => sum + counts[i] * share * share, 0);
  const lower = mean - bound * Math.sqrt((1 - delta) / (delta * ess));
  return { mean, deviation: Math.sqrt(variance), ess, lower, weights };
}

// The estimate at every point of a line; row p of `distances` (P x N) belongs to point p.
function estimateAlong(sample, distances, sigma) {
  const n = sample.counts.length;
  const logQ = logMixture(sample, sigma);
  return Array.from({ length: distances.length / n }, (_, p) =>
    estimate(sample, logQ, distances.subarray(p * n, (p + 1) * n), sigma));
}

function readSample(section) {
  return { between: decodeArray(section.between), counts: section.counts, returns: section.returns,
    bound: section.bound, delta: section.delta };
}
