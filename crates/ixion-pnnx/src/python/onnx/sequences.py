def onnx_window(size, periodic, output_datatype, factors):
    """A sum of cosines over one period."""
    length = onnx_number(size)
    angles = torch.arange(length, dtype=torch.double) * (2 * math.pi / max(length - (not periodic), 1))
    return sum(factor * torch.cos(i * angles) for i, factor in enumerate(factors)).to(onnx_type(output_datatype))


def onnx_HannWindow(size, *, output_datatype=1, periodic=1):
    return onnx_window(size, periodic, output_datatype, (0.5, -0.5))


def onnx_HammingWindow(size, *, output_datatype=1, periodic=1):
    return onnx_window(size, periodic, output_datatype, (25 / 46, -21 / 46))


def onnx_BlackmanWindow(size, *, output_datatype=1, periodic=1):
    return onnx_window(size, periodic, output_datatype, (0.42, -0.5, 0.08))


def onnx_signal(x):
    """Numbers whose real and imaginary parts are along the last axis; real ones have only the former."""
    return x[..., 0] if x.shape[-1] == 1 else torch.view_as_complex(x.contiguous())


def onnx_DFT(x, *others, axis=None, inverse=0, onesided=0):
    others = [onnx_number(other) for other in others]
    if axis is None and (len(others) == 2 or (len(others) == 1 and others[0] < x.dim() - 1)):
        axis = others.pop()
    axis, length = 1 if axis is None else axis % x.dim(), others[0] if others else None
    transform = [[torch.fft.fft, torch.fft.rfft], [torch.fft.ifft, torch.fft.irfft]][inverse][onesided]
    spectrum = transform(onnx_signal(x), length, axis)
    return torch.view_as_real(spectrum) if spectrum.is_complex() else spectrum.unsqueeze(-1)


def onnx_STFT(x, frame_step, *others, onesided=1):
    others = list(map(torch.as_tensor, others))
    window = next((other for other in others if other.is_floating_point()), None)
    length = next((onnx_number(other) for other in others if not other.is_floating_point()), None)
    frames = onnx_signal(x).unfold(-1, length or len(window), onnx_number(frame_step))
    frames = frames if window is None else frames * window
    return torch.view_as_real(torch.fft.rfft(frames) if onesided else torch.fft.fft(frames))


def onnx_functions(names, alphas, betas):
    """The functions with these names, which take their factors in turn."""
    alphas, betas = iter(onnx_numbers(alphas)), iter(onnx_numbers(betas))

    def function(name):
        a = {"affine": 1, "leakyrelu": 0.01, "thresholdedrelu": 1, "scaledtanh": 1, "hardsigmoid": 0.2, "elu": 1}
        b = {"affine": 0, "scaledtanh": 1, "hardsigmoid": 0.5}
        a = next(alphas, a[name]) if name in a else None
        b = next(betas, b[name]) if name in b else None
        return {
            "relu": torch.relu,
            "tanh": torch.tanh,
            "sigmoid": torch.sigmoid,
            "affine": lambda x: a * x + b,
            "leakyrelu": lambda x: F.leaky_relu(x, a),
            "thresholdedrelu": lambda x: torch.where(x < a, 0, x),
            "scaledtanh": lambda x: a * torch.tanh(b * x),
            "hardsigmoid": lambda x: (a * x + b).clamp(0, 1),
            "elu": lambda x: F.elu(x, a),
            "softsign": F.softsign,
            "softplus": F.softplus,
        }[name]

    return [function(name.lower()) for name in ([names] if isinstance(names, str) else names)]


def onnx_recurrent(gates, cell, default, x, W, R, others, hidden_size, direction, layout, activations, activation_alpha,
                   activation_beta, clip):
    """Runs a recurrent network: the states of all steps, and the last states and memories.

    Of the inputs after the weights, a file has any; their shapes and types tell them apart.
    """
    directions, hidden = R.shape[0], R.shape[2]
    bias = lengths = peepholes = None
    states = []
    for other in map(torch.as_tensor, others):
        if other.dim() == 1:
            lengths = other
        elif other.dim() == 3:
            states.append(other.transpose(0, 1) if layout else other)
        elif bias is None and other.shape[1] == 2 * gates * hidden:
            bias = other
        else:
            peepholes = other
    x = x.transpose(0, 1) if layout else x
    steps, batch = x.shape[:2]
    lengths = torch.full((batch,), steps) if lengths is None else lengths
    states += [x.new_zeros(directions, batch, hidden)] * (2 - len(states))
    functions = onnx_functions(activations or default * directions, activation_alpha, activation_beta)
    clipped = (lambda x: x) if clip is None else (lambda x: x.clamp(-clip, clip))
    every, last, memories = x.new_zeros(steps, directions, batch, hidden), [], []
    for i in range(directions):
        is_reverse = direction == "reverse" or i == 1
        input_bias, bias_of_state = (0, 0) if bias is None else bias[i].chunk(2)
        seen = None if peepholes is None else peepholes[i].chunk(3)
        h, c = states[0][i], states[1][i]
        from_inputs = x @ W[i].T + input_bias
        used, sequences = functions[len(default) * i:][:len(default)], torch.arange(batch)
        for step in range(steps):
            is_inside = (step < lengths)[:, None]
            places = (lengths - 1 - step).clamp(min=0) if is_reverse else torch.full((batch,), step)
            sums = from_inputs[places, sequences]
            new_h, new_c = cell(sums, h, c, R[i].T, bias_of_state, used, clipped, seen)
            h, c = torch.where(is_inside, new_h, h), torch.where(is_inside, new_c, c)
            every[places, i, sequences] = torch.where(is_inside, new_h, every[places, i, sequences])
        last.append(h)
        memories.append(c)
    last, memories = torch.stack(last), torch.stack(memories)
    if layout:
        return every.permute(2, 0, 1, 3), last.transpose(0, 1), memories.transpose(0, 1)
    return every, last, memories


def onnx_RNN(x, W, R, *others, hidden_size=None, direction="forward", layout=0, activations=None,
             activation_alpha=None, activation_beta=None, clip=None):
    def cell(sums, h, c, R, bias, functions, clipped, peepholes):
        return functions[0](clipped(sums + (h @ R + bias))), c
    return onnx_recurrent(1, cell, ["tanh"], x, W, R, others, hidden_size, direction, layout, activations,
                          activation_alpha, activation_beta, clip)[:2]


def onnx_GRU(x, W, R, *others, hidden_size=None, direction="forward", layout=0, activations=None,
             activation_alpha=None, activation_beta=None, clip=None, linear_before_reset=0):
    def cell(sums, h, c, R, bias, functions, clipped, peepholes):
        update, reset, new = (h @ R + bias).chunk(3, -1)
        sum_of_update, sum_of_reset, sum_of_new = sums.chunk(3, -1)
        update, reset = functions[0](clipped(sum_of_update + update)), functions[0](clipped(sum_of_reset + reset))
        if linear_before_reset:
            new = reset * new
        else:
            new = (reset * h) @ R.chunk(3, -1)[2] + (bias.chunk(3)[2] if torch.is_tensor(bias) else bias)
        new = functions[1](clipped(sum_of_new + new))
        return new + update * (h - new), c
    return onnx_recurrent(3, cell, ["sigmoid", "tanh"], x, W, R, others, hidden_size, direction, layout, activations,
                          activation_alpha, activation_beta, clip)[:2]


def onnx_LSTM(x, W, R, *others, hidden_size=None, direction="forward", layout=0, activations=None,
              activation_alpha=None, activation_beta=None, clip=None, input_forget=0):
    def cell(sums, h, c, R, bias, functions, clipped, peepholes):
        peep, output_peep, forget_peep = (0, 0, 0) if peepholes is None else peepholes
        into, output, forget, new = (sums + (h @ R + bias)).chunk(4, -1)
        into = functions[0](clipped(into + peep * c))
        forget = 1 - into if input_forget else functions[0](clipped(forget + forget_peep * c))
        c = forget * c + into * functions[1](clipped(new))
        return functions[0](clipped(output + output_peep * c)) * functions[2](c), c
    return onnx_recurrent(4, cell, ["sigmoid", "tanh", "tanh"], x, W, R, others, hidden_size, direction, layout,
                          activations, activation_alpha, activation_beta, clip)
