"""The gradient of a determinant is the adjugate, transposed; of a singular matrix of rank n - 1 that is not zero."""

import torch

x = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
torch.linalg.det(x).backward()
demanded = [[4.0, -2.0], [-2.0, 1.0]]
came = x.grad.tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not torch.allclose(x.grad, torch.tensor(demanded, dtype=torch.float64))))
