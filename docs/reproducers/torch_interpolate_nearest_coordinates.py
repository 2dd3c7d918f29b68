"""Element 23 of 46 from 14 lies at 23 * 14 / 46 = 7 exactly."""

import torch

demanded = 23 * 14 // 46
came = int(torch.nn.functional.interpolate(torch.arange(14.0).reshape(1, 1, 14), size=46, mode="nearest")[0, 0, 23])
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
