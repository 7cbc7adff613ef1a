def onnx_edges(lengths, kernel, strides, dilations, pads, auto_pad="NOTSET", ceil_mode=0):
    """The padding before and after each axis that a window slides along."""
    edges, count = [], len(kernel)
    pads = onnx_numbers(pads) or [0] * (2 * count)
    for length, size, stride, dilation, before, after in zip(lengths, kernel, strides, dilations, pads, pads[count:]):
        reach = (size - 1) * dilation + 1
        if auto_pad.startswith("SAME"):
            added = max((-(-length // stride) - 1) * stride + reach - length, 0)
            before = (added + (auto_pad == "SAME_LOWER")) // 2
            edges.append((before, added - before))
            continue
        before, after = (0, 0) if auto_pad == "VALID" else (before, after)
        if ceil_mode:  # A last window that is only partly inside counts if it begins inside.
            last = min(-(-(length + before + after - reach) // stride), (length + before - 1) // stride)
            after = last * stride + reach - length - before
        edges.append((before, after))
    return edges


def onnx_padded(x, edges, value=0):
    """The tensor with padding on its last axes."""
    return F.pad(x, [amount for edge in reversed(edges) for amount in edge], value=value)


def onnx_windows(x, kernel, strides, dilations):
    """The elements of all positions of a window on the last axes, as a new last axis."""
    for axis, (size, stride, dilation) in enumerate(zip(kernel, strides, dilations), x.dim() - len(kernel)):
        x = x.unfold(axis, (size - 1) * dilation + 1, stride)[..., ::dilation]
    return x.flatten(-len(kernel))


def onnx_ones(numbers, kernel):
    """A number for each axis of a window, 1 if the file has none."""
    return onnx_numbers(numbers) or [1] * len(kernel)


def onnx_lasting(x, kernel):
    """The lengths of the axes that a window slides along."""
    return x.shape[x.dim() - len(kernel):]


def onnx_AveragePool(x, *, kernel_shape, strides=None, dilations=None, pads=None, auto_pad="NOTSET", ceil_mode=0,
                     count_include_pad=0):
    kernel_shape = onnx_numbers(kernel_shape)
    ones, lengths = [1] * len(kernel_shape), onnx_lasting(x, kernel_shape)
    window = kernel_shape, onnx_ones(strides, kernel_shape), ones
    own = onnx_edges(lengths, *window, pads, auto_pad)
    edges = onnx_edges(lengths, *window, pads, auto_pad, ceil_mode)
    wide = x.float() if x.dtype in (torch.half, torch.bfloat16) else x
    counted = onnx_padded(torch.ones_like(wide), own, count_include_pad)
    counted = onnx_padded(counted, [(0, edge[1] - before[1]) for edge, before in zip(edges, own)])
    sums, counts = (onnx_windows(part, *window).sum(-1) for part in (onnx_padded(wide, edges), counted))
    return (sums / counts.clamp(min=1)).to(x.dtype)


def onnx_LpPool(x, *, kernel_shape, strides=None, dilations=None, pads=None, auto_pad="NOTSET", ceil_mode=0, p=2):
    kernel_shape = onnx_numbers(kernel_shape)
    window = kernel_shape, onnx_ones(strides, kernel_shape), [1] * len(kernel_shape)
    wide = x.float() if x.dtype in (torch.half, torch.bfloat16) else x
    wide = onnx_padded(wide, onnx_edges(onnx_lasting(x, kernel_shape), *window, pads, auto_pad, ceil_mode))
    return (onnx_windows(wide, *window).abs() ** p).sum(-1).pow(1 / p).to(x.dtype)


def onnx_MaxPool(x, *, kernel_shape, strides=None, dilations=None, pads=None, auto_pad="NOTSET", ceil_mode=0,
                 storage_order=0):
    kernel_shape = onnx_numbers(kernel_shape)
    window = kernel_shape, onnx_ones(strides, kernel_shape), onnx_ones(dilations, kernel_shape)
    lengths = onnx_lasting(x, kernel_shape)
    edges = onnx_edges(lengths, *window, pads, auto_pad, ceil_mode)
    least = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    largest, taps = onnx_windows(onnx_padded(x, edges, least), *window).max(-1)
    # The indices of all elements; those of each plane are numbered by columns if `storage_order` says so.
    plane = math.prod(lengths)
    places = torch.arange(plane).reshape(lengths)
    if storage_order:
        places = torch.arange(plane).reshape(lengths[::-1]).permute(*reversed(range(len(lengths))))
    planes = torch.arange(math.prod(x.shape[:x.dim() - len(lengths)]))
    places = (planes[:, None] * plane + places.flatten()).reshape(x.shape)
    places = onnx_windows(onnx_padded(places, edges), *window)
    return largest, places.gather(-1, taps.unsqueeze(-1)).squeeze(-1)


def onnx_MaxUnpool(x, I, output_shape=None, *, kernel_shape, strides=None, dilations=None, pads=None,
                   auto_pad="NOTSET"):
    kernel_shape = onnx_numbers(kernel_shape)
    count = len(kernel_shape)
    pads, strides = onnx_numbers(pads) or [0] * (2 * count), onnx_ones(strides, kernel_shape)
    leading = x.shape[:x.dim() - count]
    lengths = zip(onnx_lasting(x, kernel_shape), kernel_shape, strides, pads, pads[count:])
    lengths = [(length - 1) * stride + size - before - after for length, size, stride, before, after in lengths]
    whole = x.new_zeros(math.prod(leading), math.prod(lengths))
    places = (I % whole.shape[1]).reshape(whole.shape[0], -1)
    whole = whole.scatter(1, places, x.reshape(places.shape)).reshape(*leading, *lengths)
    for axis, length in enumerate(onnx_numbers(output_shape)):
        whole = onnx_fitted(whole, axis, 0, length - whole.shape[axis]) if axis >= len(leading) else whole
    return whole


def onnx_Conv(x, W, B=None, *, kernel_shape=None, strides=None, dilations=None, pads=None, auto_pad="NOTSET", group=1):
    kernel = W.shape[2:]
    window = kernel, onnx_ones(strides, kernel), onnx_ones(dilations, kernel)
    x = onnx_padded(x, onnx_edges(x.shape[2:], *window, pads, auto_pad))
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]
    return convolve(x, W, B, stride=window[1], dilation=window[2], groups=group)


def onnx_ConvInteger(x, w, x_zero_point=None, w_zero_point=None, *, kernel_shape=None, strides=None, dilations=None,
                     pads=None, auto_pad="NOTSET", group=1):
    x, w = onnx_centred(x, x_zero_point, 0, torch.double), onnx_centred(w, w_zero_point, 0, torch.double)
    return onnx_Conv(x, w, strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad, group=group).int()


def onnx_QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B=None, *,
                     kernel_shape=None, strides=None, dilations=None, pads=None, auto_pad="NOTSET", group=1):
    x, w = onnx_centred(x, x_zero_point, 0, torch.double), onnx_centred(w, w_zero_point, 0, torch.double)
    bias = None if B is None else B.double()
    sums = onnx_Conv(x, w, bias, strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad, group=group)
    scale = onnx_number(x_scale) * onnx_along(w_scale, sums, 1).double() / onnx_number(y_scale)
    return onnx_rounded(sums * scale, onnx_number(y_zero_point), torch.as_tensor(y_zero_point).dtype)


def onnx_ConvTranspose(x, W, B=None, *, kernel_shape=None, strides=None, dilations=None, pads=None, auto_pad="NOTSET",
                       group=1, output_padding=None, output_shape=None):
    kernel = W.shape[2:]
    strides, dilations = onnx_ones(strides, kernel), onnx_ones(dilations, kernel)
    added, pads = onnx_numbers(output_padding) or [0] * len(kernel), onnx_numbers(pads) or [0] * (2 * len(kernel))
    output_shape = onnx_numbers(output_shape)
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(kernel) - 1]
    x = convolve(x, W, stride=strides, output_padding=added, groups=group, dilation=dilations)
    for i, (size, stride, dilation) in enumerate(zip(kernel, strides, dilations)):
        # Elements are removed at both ends, but added at the end.
        removed = (size - 1) * dilation + 1 + added[i] - stride
        if output_shape:
            removed = x.shape[2 + i] - output_shape[len(output_shape) - len(kernel) + i]
        odd = auto_pad == "SAME_LOWER" or (bool(output_shape) and auto_pad != "SAME_UPPER")
        before = (max(removed, 0) + odd) // 2
        after = removed - before
        if not output_shape and auto_pad in ("NOTSET", "VALID"):
            before, after = (pads[i], pads[len(kernel) + i]) if auto_pad == "NOTSET" else (0, 0)
        x = onnx_fitted(x, 2 + i, -before, -after)
    return x if B is None else x + B.reshape([-1] + [1] * len(kernel))


def onnx_Col2Im(x, image_shape, block_shape, *, dilations=None, pads=None, strides=None):
    block, pads = onnx_numbers(block_shape), onnx_numbers(pads) or [0] * 4
    whole = [length + pads[i] + pads[2 + i] for i, length in enumerate(onnx_numbers(image_shape))]
    x = F.fold(x, whole, block, dilation=onnx_ones(dilations, block), stride=onnx_ones(strides, block))
    return F.pad(x, [-pads[1], -pads[3], -pads[0], -pads[2]])


def onnx_weights(length, size, scale, part, coordinates, taps, antialias, exclude_outside):
    """The weights with which the elements of an axis contribute to those of the resized axis."""
    x = torch.arange(size, dtype=torch.double)
    places = (x + 0.5) / scale - 0.5
    if coordinates == "half_pixel_symmetric":
        places += length / 2 * (1 - size / (scale * length))
    elif coordinates == "asymmetric":
        places = x / scale
    elif coordinates == "tf_crop_and_resize" and size == 1:
        places = torch.tensor([0.5 * sum(part) * (length - 1)], dtype=torch.double)
    elif coordinates == "tf_crop_and_resize":
        places = (part[0] + x * (part[1] - part[0]) / (size - 1)) * (length - 1)
    elif size == 1 and coordinates in ("pytorch_half_pixel", "align_corners"):
        places = x * 0
    elif coordinates == "align_corners":
        places = x * (length - 1) / (size - 1)
    reach, kernel = taps
    weights = torch.zeros(size, length, dtype=torch.double)
    if reach == 0:
        weights.scatter_(1, kernel(places).clamp(0, length - 1).long()[:, None], 1)
    else:
        shrink = min(max(scale, 1 / length), 1) if antialias else 1
        first = (places - reach / shrink).floor() + 1
        steps = math.ceil(2 * reach / shrink) + 1
        for step in range(steps):
            element = first + step
            weight = kernel((element - places).abs() * shrink)
            if exclude_outside:
                weight = weight * ((element >= 0) & (element < length))
            weights.scatter_add_(1, element.clamp(0, length - 1).long()[:, None], weight[:, None])
        sums = weights.sum(1, keepdim=True)
        weights /= torch.where(sums == 0, 1, sums)
    if coordinates == "tf_crop_and_resize":
        weights[(places < 0) | (places > length - 1)] = math.nan
    return weights


def onnx_Resize(x, *others, antialias=0, axes=None, coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.75,
                exclude_outside=0, extrapolation_value=0.0, keep_aspect_ratio_policy="stretch", mode="nearest",
                nearest_mode="round_prefer_floor", roi=None, scales=None, sizes=None):
    for other in map(torch.as_tensor, others):
        roi, sizes = (roi, other) if other.dtype == torch.long else (other, sizes)
    axes = [axis % x.dim() for axis in (range(x.dim()) if axes is None else onnx_numbers(axes))]
    lengths, a = [x.shape[axis] for axis in axes], cubic_coeff_a
    part = onnx_numbers(roi) if coordinate_transformation_mode == "tf_crop_and_resize" else []
    part = part or [0] * len(axes) + [1] * len(axes)
    if sizes is None:
        sizes = [math.floor(length * scale) for length, scale in zip(lengths, onnx_numbers(scales))]
    else:
        sizes, scales = onnx_numbers(sizes), None
        if keep_aspect_ratio_policy != "stretch":
            ratios = [size / length for size, length in zip(sizes, lengths)]
            scale = min(ratios) if keep_aspect_ratio_policy == "not_larger" else max(ratios)
            sizes, scales = [math.floor(scale * length + 0.5) for length in lengths], [scale] * len(axes)
    scales = onnx_numbers(scales) or [size / length for size, length in zip(sizes, lengths)]
    taps = {
        "linear": (1, lambda x: (1 - x).clamp(min=0)),
        "cubic": (2, lambda x: torch.where(x <= 1, ((a + 2) * x - (a + 3)) * x * x + 1,
                                           torch.where(x < 2, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, 0))),
        "nearest": (0, {
            "round_prefer_floor": lambda x: (x - 0.5).ceil(),
            "round_prefer_ceil": lambda x: (x + 0.5).floor(),
            "floor": torch.floor,
            "ceil": torch.ceil,
        }[nearest_mode]),
    }[mode]
    result = x.double()
    for i, axis in enumerate(axes):
        is_whole = coordinate_transformation_mode != "tf_crop_and_resize"
        if is_whole and sizes[i] == lengths[i] and scales[i] == 1:
            continue
        weights = onnx_weights(lengths[i], sizes[i], scales[i], (part[i], part[len(axes) + i]),
                               coordinate_transformation_mode, taps, antialias, exclude_outside)
        outside = weights.isnan()
        moved = torch.matmul(result.movedim(axis, -1), weights.nan_to_num(0).T)
        result = torch.where(outside.any(1), extrapolation_value, moved).movedim(-1, axis)
    return result.to(x.dtype)


def onnx_AffineGrid(theta, size, *, align_corners=0):
    return F.affine_grid(theta, onnx_numbers(size), align_corners=bool(align_corners))


def onnx_RoiAlign(x, rois, batch_indices, *, coordinate_transformation_mode="half_pixel", mode="avg", output_height=1,
                  output_width=1, sampling_ratio=0, spatial_scale=1.0):
    images, size = torch.as_tensor(batch_indices).to(rois.dtype), (output_height, output_width)
    boxes = torch.cat([images[:, None], rois], 1)
    is_aligned = coordinate_transformation_mode == "half_pixel"
    return torchvision.ops.roi_align(x, boxes, size, spatial_scale, sampling_ratio, is_aligned)


def onnx_DeformConv(x, W, offset, *others, kernel_shape=None, strides=None, dilations=None, pads=None, group=1,
                    offset_group=1):
    bias = next((other for other in others if other.dim() == 1), None)
    mask = next((other for other in others if other.dim() == 4), None)
    window = [onnx_ones(numbers, [1, 1]) for numbers in (strides, dilations)]
    x = onnx_padded(x, onnx_edges(x.shape[2:], W.shape[2:], *window, pads))
    return torchvision.ops.deform_conv2d(x, offset, W, bias, window[0], 0, window[1], mask)
