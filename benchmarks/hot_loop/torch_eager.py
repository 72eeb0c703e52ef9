"""The objective in PyTorch, eager, with autograd: what a straightforward implementation costs. (Extra `bench`.)"""

from hot_loop.problem import PENALTY, RATE, layers_of


def eager(size):
    """One gradient step per turn of a Python loop, on one thread."""
    import torch

    torch.set_num_threads(1)

    def run(theta, observations, actions, returns, log_q, scale, steps):
        point = torch.tensor(theta, requires_grad=True)
        seen, goal, worth, mixture = map(torch.tensor, (observations, actions, returns, log_q))
        for _ in range(steps):
            x = seen
            for i, (weights, bias) in enumerate(layers_of(point, size)):
                x = x @ weights + bias
                x = torch.tanh(x) if i < len(size.layers) - 1 else x
            distances = torch.sum(torch.square((goal - x) / scale), dim=(1, 2))
            w = torch.softmax(-0.5 * distances - mixture, dim=0)
            value = torch.sum(w * worth) - PENALTY * torch.sqrt(torch.sum(torch.square(w)))
            (slope,) = torch.autograd.grad(value, point)
            point = (point.detach() + RATE * slope).requires_grad_()
        return point.detach().numpy()

    return run
