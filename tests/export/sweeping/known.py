"""Functions that do not run for a reason that a script cannot find out."""

# The verdict and the reason of functions that differ or fail.
KNOWN: dict[str, tuple[str, str]] = {
    "torch.nn.AdaptiveLogSoftmaxWithLoss": ("pnnx", "it stores the results of the sample, which the module writes into a new tensor, as a constant"),
}
