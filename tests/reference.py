"""The paper as slow float64 loops, without log tricks: the oracle that judges the fast code.

Written from the formulas alone. Trajectories are lists of (observation, action) pairs; a policy is a function
μ_θ(observation) → action. Nothing of ddopg is imported here.
"""

import math


def normal_density(action, mean, sigma):
    """N(a | μ, diag(σ²)) for vectors."""
    density = 1.0
    for a, m, s in zip(action, mean, sigma, strict=True):
        density *= math.exp(-0.5 * ((a - m) / s) ** 2) / (s * math.sqrt(2 * math.pi))
    return density


def trajectory_density(trajectory, mu, sigma):
    """Πₜ N(aₜ | μ(sₜ), Σ): the part of Eq. (2) that knows the policy."""
    product = 1.0
    for observation, action in trajectory:
        product *= normal_density(action, mu(observation), sigma)
    return product


def mixture_density(trajectory, policies, sigma):
    """1/N Σⱼ p(τ|θⱼ)."""
    return sum(trajectory_density(trajectory, mu, sigma) for mu in policies) / len(policies)


def surrogate_weights(trajectories, policies, mu, sigma):
    """Eq. (15) for every trajectory."""
    return [trajectory_density(t, mu, sigma) / mixture_density(t, policies, sigma) for t in trajectories]


def plain(weights, returns):
    """Z = N: Eqs. (8), (14)."""
    return sum(w * r for w, r in zip(weights, returns, strict=True)) / len(weights)


def weighted(weights, returns):
    """Z = Σw: Eqs. (11), (14)."""
    return sum(w * r for w, r in zip(weights, returns, strict=True)) / sum(weights)


def weighted_variance(weights, returns):
    """The variance of the return under the self-normalised weights."""
    mean = weighted(weights, returns)
    return sum(w * (r - mean) ** 2 for w, r in zip(weights, returns, strict=True)) / sum(weights)


def standard_error(weights, returns):
    """√((V + V₀/ESS)/ESS), V with the weights, V₀ with equal ones."""
    ess = ess_self_normalised(weights)
    spread = weighted_variance([1.0] * len(returns), returns)
    return math.sqrt((weighted_variance(weights, returns) + spread / ess) / ess)


def ess_as_printed(weights):
    """Eq. (17)."""
    return 1.0 / sum(w**2 for w in weights)


def ess_self_normalised(weights):
    """Eq. (17) on weights that were divided by their sum."""
    return ess_as_printed([w / sum(weights) for w in weights])


def lower_bound(mean, ess, return_bound, delta):
    """Eqs. (18) and (19)."""
    return mean - return_bound * math.sqrt((1 - delta) / delta / ess)


def renyi_lower_bound(mean, d2, number, return_bound, delta):
    """Eq. (16)."""
    return mean - return_bound * math.sqrt((1 - delta) * d2 / (delta * number))


def penalty(ess, return_bound, gamma):
    """Eq. (20)."""
    return -return_bound * gamma * math.sqrt(1 / ess)


def proposition_1(weights, scores, returns):
    """Eq. (12): scores[i] is Σₜ ∇log π(aₜ|sₜ; θ), a list of D numbers."""
    baseline, total = weighted(weights, returns), sum(weights)
    return [
        sum(w * score[d] * (r - baseline) for w, score, r in zip(weights, scores, returns, strict=True))
        / total
        for d in range(len(scores[0]))
    ]


def softmax(returns, temperature):
    """Eq. (21), on returns scaled to [0, 1]."""
    low, high = min(returns), max(returns)
    scaled = [(r - low) / (high - low) for r in returns]
    total = sum(math.exp(r / temperature) for r in scaled)
    return [math.exp(r / temperature) / total for r in scaled]


def released_estimate(trajectories, policies, returns, mu, sigma, epsilon):
    """(mean, ESS) with ε in every denominator, likelihoods shifted by the largest of each trajectory."""
    weights = []
    for t in trajectories:
        likelihoods = [trajectory_density(t, other, sigma) for other in policies]
        largest = max(likelihoods)
        mixture = sum(value / largest for value in likelihoods) / len(policies)
        weights.append(trajectory_density(t, mu, sigma) / largest / (mixture + epsilon))
    shares = [w / (sum(weights) + epsilon) for w in weights]
    mean = sum(s * r for s, r in zip(shares, returns, strict=True))
    return mean, sum(shares) ** 2 / (sum(s**2 for s in shares) + epsilon)


def per_decision(trajectories, policies, rewards, mu, sigma):
    """Σₜ Σᵢ w̄ᵢₜ rᵢₜ: each reward weighted by the likelihood ratio of the steps up to it, normalised per time.

    After its end a trajectory keeps its last weight; its rewards are zero there.
    """
    total = 0.0
    for t in range(len(rewards[0])):
        weights = surrogate_weights([path[: t + 1] for path in trajectories], policies, mu, sigma)
        total += weighted(weights, [r[t] for r in rewards])
    return total


def doubly_robust(weights, rewards, taken, values, normalised):
    """1/N Σᵢ V̂(sᵢ₀) + Σₜ 1/Zₜ Σᵢ wᵢₜ (rᵢₜ + V̂(sᵢₜ₊₁) − Q̂(sᵢₜ, aᵢₜ)), Zₜ = Σᵢ wᵢₜ or N.

    `weights[i]` has a number for every time; the others have one for every step that the episode had.
    """
    number = len(weights)
    total = sum(v[0] for v in values) / number
    for t in range(len(weights[0])):
        z = sum(w[t] for w in weights) if normalised else number
        for w, r, q, v in zip(weights, rewards, taken, values, strict=True):
            if t < len(r):
                following = v[t + 1] if t + 1 < len(v) else 0.0
                total += w[t] * (r[t] + following - q[t]) / z
    return total


def expected_improvement(mean, deviation, best, cells=200_000, width=12.0):
    """∫ max(0, J − b) N(J | μ, σ²) dJ by the midpoint rule."""
    total, step = 0.0, 2 * width * deviation / cells
    for i in range(cells):
        value = mean - width * deviation + (i + 0.5) * step
        if value > best:
            total += (value - best) * normal_density([value], [mean], [deviation]) * step
    return total


def optimal_baseline(weights, returns):
    """Cov(wR, w)/Var(w)."""
    number = len(weights)
    mean_w = sum(weights) / number
    mean_wr = sum(w * r for w, r in zip(weights, returns, strict=True)) / number
    covariance = sum((w * r - mean_wr) * (w - mean_w) for w, r in zip(weights, returns, strict=True))
    return covariance / sum((w - mean_w) ** 2 for w in weights)


def baselined(weights, returns):
    """1/N Σ [w (R − b) + b], b from all trajectories but the one it is used for."""
    total = 0.0
    for i, (w, r) in enumerate(zip(weights, returns, strict=True)):
        b = optimal_baseline(weights[:i] + weights[i + 1 :], returns[:i] + returns[i + 1 :])
        total += w * (r - b) + b
    return total / len(weights)


def baselined_gradient(weights, scores, returns):
    """1/N Σ w s (R − g), g = Σ w²‖s‖²R / Σ w²‖s‖² over all trajectories but the one it is used for."""
    gradient = [0.0] * len(scores[0])
    for i, (w, score, r) in enumerate(zip(weights, scores, returns, strict=True)):
        others = [j for j in range(len(weights)) if j != i]
        power = {j: weights[j] ** 2 * sum(s**2 for s in scores[j]) for j in others}
        g = sum(power[j] * returns[j] for j in others) / sum(power.values())
        for d, s in enumerate(score):
            gradient[d] += w * s * (r - g) / len(weights)
    return gradient
