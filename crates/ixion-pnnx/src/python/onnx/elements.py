def onnx_IsInf(x, *, detect_negative=1, detect_positive=1):
    return (torch.isneginf(x) & bool(detect_negative)) | (torch.isposinf(x) & bool(detect_positive))


def onnx_IsNaN(x):
    return torch.isnan(x)


def onnx_Selu(x, *, alpha=1.6732631921768188, gamma=1.0507010221481323):
    return F.elu(x, alpha) * gamma


def onnx_Shrink(x, *, bias=0.0, lambd=0.5):
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, 0)).to(x.dtype)


def onnx_Softsign(x):
    return F.softsign(x)


def onnx_Swish(x, *, alpha=1.0):
    return x * torch.sigmoid(x * alpha)


def onnx_ThresholdedRelu(x, *, alpha=1.0):
    return F.threshold(x, alpha, 0.0)


def onnx_PRelu(x, slope):
    return torch.where(x < 0, x * slope, x)


def onnx_Mean(*inputs):
    return sum(inputs[1:], inputs[0]) / len(inputs)


def onnx_BitShift(x, Y, *, direction):
    return x << Y if direction == "LEFT" else x >> Y


def onnx_Mod(A, B, *, fmod=0):
    return (torch.fmod if fmod else torch.remainder)(A, B)


def onnx_CastLike(x, target_type):
    return x.to(torch.as_tensor(target_type).dtype)


def onnx_LpNormalization(x, *, axis=-1, p=2):
    return F.normalize(x, p=p, dim=axis)


def onnx_GlobalLpPool(x, *, p=2):
    return torch.linalg.vector_norm(x, p, tuple(range(2, x.dim())), keepdim=True)


def onnx_MeanVarianceNormalization(x, *, axes=(0, 2, 3)):
    axes = onnx_numbers(axes)
    mean = x.mean(axes, keepdim=True)
    return (x - mean) / (x.var(axes, correction=0, keepdim=True).sqrt() + 1e-9)


def onnx_BatchNormalization(x, scale, B, input_mean, input_var, *, epsilon=1e-5, momentum=0.9, training_mode=0):
    axes, shape = [axis for axis in range(x.dim()) if axis != 1], [1, -1] + [1] * (x.dim() - 2)
    mean, variance = (x.mean(axes), x.var(axes, correction=0)) if training_mode else (input_mean, input_var)
    y = (x - mean.reshape(shape)) / (variance + epsilon).sqrt().reshape(shape) * scale.reshape(shape) + B.reshape(shape)
    return y, input_mean * momentum + mean * (1 - momentum), input_var * momentum + variance * (1 - momentum)


def onnx_Clip(x, min=None, max=None):
    bounds = [None if bound is None else torch.as_tensor(bound) for bound in (min, max)]
    return x if bounds == [None, None] else torch.clamp(x, *bounds)


def onnx_Det(x):
    return torch.linalg.det(x.double()).to(x.dtype)


def onnx_scan(x, axis, exclusive, reverse, scan, start):
    """A cumulative sum or product along an axis."""
    axis = onnx_number(axis)
    x = x.flip(axis) if reverse else x
    x = scan(onnx_fitted(x, axis, 1, -1, start) if exclusive else x, axis, dtype=x.dtype)
    return x.flip(axis) if reverse else x


def onnx_CumSum(x, axis, *, exclusive=0, reverse=0):
    return onnx_scan(x, axis, exclusive, reverse, torch.cumsum, 0)


def onnx_CumProd(x, axis, *, exclusive=0, reverse=0):
    return onnx_scan(x, axis, exclusive, reverse, torch.cumprod, 1)


def onnx_reduced(x, axes, keepdims, noop_with_empty_axes, reduce, alone=lambda x: x):
    """A reduction along axes. If there are none, all are reduced, unless `noop_with_empty_axes` says otherwise."""
    axes = onnx_numbers(axes)
    if not axes and noop_with_empty_axes:
        return alone(x)
    return reduce(x, axes or list(range(x.dim())), bool(keepdims)).to(x.dtype)


def onnx_ReduceSum(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return onnx_reduced(x, axes, keepdims, noop_with_empty_axes, torch.sum)


def onnx_ReduceMean(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    def reduce(x, axes, keepdim):
        return torch.mean(x if x.is_floating_point() else x.double(), axes, keepdim)
    return onnx_reduced(x, axes, keepdims, noop_with_empty_axes, reduce)


def onnx_ReduceProd(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    def reduce(x, axes, keepdim):
        for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
            x = torch.prod(x, axis, keepdim)
        return x
    return onnx_reduced(x, axes, keepdims, noop_with_empty_axes, reduce)


def onnx_ReduceMax(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    def reduce(x, axes, keepdim):
        is_empty = x.is_floating_point() and x.numel() == 0
        return torch.sum(x, axes, keepdim) - math.inf if is_empty else torch.amax(x, axes, keepdim)
    return onnx_reduced(x, axes, keepdims, noop_with_empty_axes, reduce)


def onnx_ReduceMin(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    def reduce(x, axes, keepdim):
        is_empty = x.is_floating_point() and x.numel() == 0
        return torch.sum(x, axes, keepdim) + math.inf if is_empty else torch.amin(x, axes, keepdim)
    return onnx_reduced(x, axes, keepdims, noop_with_empty_axes, reduce)


def onnx_ReduceL1(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return onnx_reduced(x.abs(), axes, keepdims, noop_with_empty_axes, torch.sum)


def onnx_ReduceL2(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    def reduce(x, axes, keepdim):
        return torch.linalg.vector_norm(x if x.is_floating_point() else x.double(), 2, axes, keepdim)
    return onnx_reduced(x, axes, keepdims, noop_with_empty_axes, reduce, torch.abs)


def onnx_ReduceSumSquare(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return onnx_reduced(x * x, axes, keepdims, noop_with_empty_axes, torch.sum)


def onnx_ReduceLogSum(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return torch.log(onnx_reduced(x, axes, keepdims, noop_with_empty_axes, torch.sum))


def onnx_ReduceLogSumExp(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    def reduce(x, axes, keepdim):
        return torch.logsumexp(x if x.is_floating_point() else x.double(), axes, keepdim)
    return onnx_reduced(x, axes, keepdims, noop_with_empty_axes, reduce)


def onnx_Bernoulli(x, *, dtype=None, seed=None):
    return (torch.rand_like(x) < x).to(x.dtype if dtype is None else onnx_type(dtype))


def onnx_RandomNormal(*, shape, mean=0.0, scale=1.0, dtype=1, seed=None):
    return torch.randn(shape, dtype=onnx_type(dtype)) * scale + mean


def onnx_RandomNormalLike(x, *, mean=0.0, scale=1.0, dtype=None, seed=None):
    return torch.randn_like(x, dtype=x.dtype if dtype is None else onnx_type(dtype)) * scale + mean


def onnx_RandomUniform(*, shape, low=0.0, high=1.0, dtype=1, seed=None):
    return torch.rand(shape, dtype=onnx_type(dtype)) * (high - low) + low


def onnx_RandomUniformLike(x, *, low=0.0, high=1.0, dtype=None, seed=None):
    return torch.rand_like(x, dtype=x.dtype if dtype is None else onnx_type(dtype)) * (high - low) + low


def onnx_Multinomial(x, *, dtype=6, sample_size=1, seed=None):
    return torch.multinomial(F.softmax(x, -1), sample_size, replacement=True).to(onnx_type(dtype))


def onnx_along(values, x, axis, block_size=0):
    """A scale or zero point that is broadcast to a tensor: one for all, or for each element or block of an axis."""
    values = torch.as_tensor(values)
    if block_size:
        return values.repeat_interleave(block_size, axis)
    if values.numel() == 1 and values.dim() < 2:
        return values.reshape(())
    return values.reshape([-1 if i == axis % x.dim() else 1 for i in range(x.dim())]) if values.dim() == 1 else values


def onnx_rounded(x, zero_point, dtype):
    """Numbers rounded, moved by a zero point, and saturated."""
    limits = torch.iinfo(dtype)
    return (torch.round(x) + zero_point).clamp(limits.min, limits.max).to(dtype)


def onnx_QuantizeLinear(x, y_scale, y_zero_point=None, *, axis=1, block_size=0, output_dtype=None, saturate=1):
    x = x / onnx_along(y_scale, x, axis, block_size)
    if y_zero_point is None:
        return onnx_rounded(x, 0, onnx_type(output_dtype or 2))
    return onnx_rounded(x, onnx_along(y_zero_point, x, axis, block_size).to(x.dtype), y_zero_point.dtype)


def onnx_DequantizeLinear(x, x_scale, x_zero_point=None, *, axis=1, block_size=0):
    scale = onnx_along(x_scale, x, axis, block_size)
    zero = 0 if x_zero_point is None else onnx_along(x_zero_point, x, axis, block_size).to(scale.dtype)
    return (x.to(scale.dtype) - zero) * scale


def onnx_centred(x, zero_point, axis, dtype):
    """Integers without their zero point, in a wider type."""
    return x.to(dtype) - (0 if zero_point is None else onnx_along(zero_point, x, axis).to(dtype))


def onnx_DynamicQuantizeLinear(x):
    least, most = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = (most - least) / 255
    zero_point = onnx_rounded(-least / scale, 0, torch.uint8)
    return onnx_rounded(x / scale, zero_point.to(x.dtype), torch.uint8), scale, zero_point


def onnx_MatMulInteger(A, B, a_zero_point=None, b_zero_point=None):
    A, B = onnx_centred(A, a_zero_point, -2, torch.int), onnx_centred(B, b_zero_point, -1, torch.int)
    return torch.matmul(A, B)


def onnx_QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point):
    sums = onnx_MatMulInteger(a, b, a_zero_point, b_zero_point).double()
    scale = onnx_along(a_scale, sums, -2).double() * onnx_along(b_scale, sums, -1) / torch.as_tensor(y_scale)
    return onnx_rounded(sums * scale, onnx_along(y_zero_point, sums, -1).double(), y_zero_point.dtype)
