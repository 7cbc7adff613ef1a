def onnx_numbers(values):
    """Numbers as a list: those of a tensor or a sequence, a single one, or none."""
    return [] if values is None else torch.as_tensor(values).flatten().tolist()


def onnx_number(value, default=0):
    """A single number."""
    return default if value is None else torch.as_tensor(value).item()


def onnx_type(number):
    """The element type with this number."""
    types = {1: torch.float, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int, 7: torch.long, 9: torch.bool}
    types |= {10: torch.half, 11: torch.double, 14: torch.complex64, 15: torch.complex128, 16: torch.bfloat16}
    return types[number]


def onnx_wrapped(indices, length):
    """Indices of an axis, of which negative ones count from its end."""
    indices = torch.as_tensor(indices).long()
    return torch.where(indices < 0, indices + length, indices)


def onnx_fitted(x, axis, before, after, value=0):
    """The tensor with elements added at both ends of an axis; negative numbers are removed."""
    return F.pad(x, [0, 0] * (x.dim() - 1 - axis % x.dim()) + [int(before), int(after)], value=value)


def onnx_Gather(x, indices, *, axis=0):
    indices, axis = torch.as_tensor(indices), axis % x.dim()
    places = onnx_wrapped(indices, x.shape[axis]).flatten()
    return x.index_select(axis, places).reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1:])


def onnx_GatherElements(x, indices, *, axis=0):
    return x.gather(axis, onnx_wrapped(indices, x.shape[axis]))


def onnx_places(x, indices, batch=0):
    """For each row of indices, the index among all positions of the batch axes and of those that it selects from."""
    shape = x.shape[:batch] + (1,) * (indices.dim() - 1 - batch)
    places = torch.arange(math.prod(x.shape[:batch])).reshape(shape)
    for index, length in zip(indices.unbind(-1), x.shape[batch:]):
        places = places * length + onnx_wrapped(index, length)
    return places.expand(indices.shape[:-1])


def onnx_GatherND(x, indices, *, batch_dims=0):
    indices = torch.as_tensor(indices)
    depth = batch_dims + indices.shape[-1]
    whole = x.reshape(math.prod(x.shape[:depth]), *x.shape[depth:])
    return whole[onnx_places(x, indices, batch_dims)]


def onnx_ScatterElements(x, indices, updates, *, axis=0, reduction="none"):
    places, updates = onnx_wrapped(indices, x.shape[axis]), torch.as_tensor(updates)
    if reduction == "none":
        return x.scatter(axis, places, updates)
    reduce = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
    return x.scatter_reduce(axis, places, updates, reduce)


def onnx_Scatter(x, indices, updates, *, axis=0, reduction="none"):
    return onnx_ScatterElements(x, indices, updates, axis=axis, reduction=reduction)


def onnx_ScatterND(x, indices, updates, *, reduction="none"):
    indices, updates = torch.as_tensor(indices), torch.as_tensor(updates)
    depth = indices.shape[-1]
    whole = x.reshape(math.prod(x.shape[:depth]), math.prod(x.shape[depth:]))
    places = onnx_places(x, indices).reshape(-1, 1).expand(-1, whole.shape[1])
    return onnx_ScatterElements(whole, places, updates.reshape(places.shape), reduction=reduction).reshape(x.shape)


def onnx_OneHot(indices, depth, values, *, axis=-1):
    depth, axis = onnx_number(depth), axis % (indices.dim() + 1)
    steps = torch.arange(depth).reshape([depth if i == axis else 1 for i in range(indices.dim() + 1)])
    return torch.where(onnx_wrapped(indices, depth).unsqueeze(axis) == steps, values[1], values[0])


def onnx_Expand(x, shape):
    return x.expand(torch.broadcast_shapes(x.shape, onnx_numbers(shape)))


def onnx_Slice(x, starts, ends, axes=None, steps=None):
    starts, ends = onnx_numbers(starts), onnx_numbers(ends)
    axes = range(len(starts)) if axes is None else onnx_numbers(axes)
    steps = [1] * len(starts) if steps is None else onnx_numbers(steps)
    for axis, start, end, step in zip(axes, starts, ends, steps):
        places = range(x.shape[axis])[start:end:step]
        x = x.index_select(axis, torch.tensor(places, dtype=torch.long))
    return x


def onnx_Pad(x, pads, *others, mode="constant", value=None, axes=None):
    for other in others:  # The value, the axes, or both.
        is_value = value is None and (len(others) > 1 or torch.as_tensor(other).dtype == x.dtype)
        value, axes = (other, axes) if is_value else (value, other)
    pads, axes = onnx_numbers(pads), range(x.dim()) if axes is None else onnx_numbers(axes)
    for axis, before, after in zip(axes, pads, pads[len(axes):]):
        if mode == "constant":
            x = onnx_fitted(x, axis, before, after, onnx_number(value))
            continue
        length = x.shape[axis]
        places = torch.arange(-before, length + after)
        if mode == "reflect":
            places = length - 1 - (places % max(2 * length - 2, 1) - (length - 1)).abs()
        x = x.index_select(axis, places % length if mode == "wrap" else places.clamp(0, length - 1))
    return x


def onnx_CenterCropPad(x, shape, *, axes=None):
    for axis, length in zip(range(x.dim()) if axes is None else onnx_numbers(axes), onnx_numbers(shape)):
        added = length - x.shape[axis]
        before = math.trunc(added / 2)
        x = onnx_fitted(x, axis, before, added - before)
    return x


def onnx_DepthToSpace(x, *, blocksize, mode="DCR"):
    if mode == "CRD":
        return F.pixel_shuffle(x, blocksize)
    return x.unflatten(1, (blocksize, blocksize, -1)).permute(0, 3, 4, 1, 5, 2).flatten(4, 5).flatten(2, 3)


def onnx_Trilu(x, k=None, *, upper=1):
    return (torch.triu if upper else torch.tril)(x, onnx_number(k))


def onnx_ReverseSequence(x, sequence_lens, *, batch_axis=1, time_axis=0):
    lengths = torch.as_tensor(sequence_lens).unsqueeze(time_axis)
    steps = torch.arange(x.shape[time_axis]).unsqueeze(batch_axis)
    places = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return x.gather(time_axis, places.reshape(x.shape[:2] + (1,) * (x.dim() - 2)).expand(x.shape))


def onnx_Size(x):
    return torch.tensor(x.numel())


def onnx_Transpose(x, *, perm=None):
    return x.permute(onnx_numbers(perm) or list(reversed(range(x.dim()))))


def onnx_EyeLike(x, *, dtype=None, k=0):
    return torch.ones_like(x, dtype=x.dtype if dtype is None else onnx_type(dtype)).triu(k).tril(k)


def onnx_NonZero(x):
    return torch.nonzero(x).T


def onnx_Compress(x, condition, *, axis=None):
    x, axis = (x.flatten(), 0) if axis is None else (x, axis)
    return x.index_select(axis, torch.nonzero(torch.as_tensor(condition))[:, 0])


def onnx_place(x, axis, keepdims, select_last_index, find):
    """The index of an extreme element along an axis."""
    if not select_last_index:
        return find(x, axis, bool(keepdims))
    return x.shape[axis] - 1 - find(x.flip(axis), axis, bool(keepdims))


def onnx_ArgMax(x, *, axis=0, keepdims=1, select_last_index=0):
    return onnx_place(x, axis, keepdims, select_last_index, torch.argmax)


def onnx_ArgMin(x, *, axis=0, keepdims=1, select_last_index=0):
    return onnx_place(x, axis, keepdims, select_last_index, torch.argmin)


def onnx_Hardmax(x, *, axis=-1):
    return torch.zeros_like(x).scatter(axis, torch.argmax(x, axis, keepdim=True), 1)


def onnx_TopK(x, K, *, axis=-1, largest=1, sorted=1):
    if not sorted:
        return torch.topk(x, onnx_number(K), axis, bool(largest), sorted=False)
    found = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    return [part.narrow(axis, 0, onnx_number(K)) for part in found]


def onnx_Unique(x, *, axis=None, sorted=1):
    x, axis = (x.flatten(), 0) if axis is None else (x, axis)
    rows = x.movedim(axis, 0).reshape(x.shape[axis], -1).tolist()
    keys = [tuple((item != item, item if item == item else 0) for item in row) for row in rows]  # All NaN are equal.
    first = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    unique = list(first)
    if sorted:
        unique.sort()
    indices, places = [first[key] for key in unique], {key: place for place, key in enumerate(unique)}
    inverse = torch.tensor([places[key] for key in keys], dtype=torch.long)
    indices = torch.tensor(indices, dtype=torch.long)
    counts = torch.bincount(inverse, minlength=len(unique))
    return x.index_select(axis, indices), indices, inverse, counts


def onnx_NonMaxSuppression(boxes, scores, max_output_boxes_per_class=None, iou_threshold=None, score_threshold=None, *,
                           center_point_box=0):
    most, overlap = onnx_number(max_output_boxes_per_class), onnx_number(iou_threshold)
    least, rows = onnx_number(score_threshold, -math.inf), []
    first, second = boxes.double().split(2, dim=-1)
    if center_point_box:
        first, second = first - second / 2, first + second / 2
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    for image, classes in enumerate(scores.double()):
        for number, values in enumerate(classes):
            order = torch.sort(values, descending=True, stable=True).indices
            order, kept = order[values[order] > least], []
            while len(order) and len(kept) < most:
                best, order = order[0], order[1:]
                kept.append(best.item())
                low_corner = torch.maximum(low[image, best], low[image, order])
                shared = (torch.minimum(high[image, best], high[image, order]) - low_corner).clamp(min=0).prod(-1)
                areas = (high[image] - low[image]).prod(-1)
                order = order[~(shared / (areas[best] + areas[order] - shared) > overlap)]
            rows += [[image, number, place] for place in kept]
    return torch.tensor(rows, dtype=torch.long).reshape(-1, 3)
