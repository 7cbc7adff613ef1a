//! Runs the tests of all lessons on the framework itself, which is the course's reference solution.
//!
//! Each lesson's tests are next to its starter and use `super::subject`. There, it is the learner's code; here, it is the
//! framework:
//!
//! ```ignore
//! #[path = "../../lessons/08_conv/tests"]
//! mod lesson08 {
//!     mod subject {
//!         pub(super) use ixion::kernels::naive::{conv2d, unfold};
//!     }
//!     mod tasks;
//! }
//! ```

#[path = "../../lessons/01_arrays/tests"]
mod lesson01 {
    mod subject {
        pub(super) use ixion::kernels::naive::{
            add, all_close, axpy, is_close, matmul, norm, sigmoid, solve, solve_upper, subtract,
        };
    }
    mod tasks;
}

#[path = "../../lessons/02_tensor/tests"]
mod lesson02 {
    mod subject {
        pub(super) use ixion::kernels::naive::{fill, flatten, pad_constant, pad_source, reshape};
        pub(super) use ixion::tensor::{
            broadcast_shapes, contiguous_strides, expanded_axes, index_of, merged_axes, position,
            reshaped_axes,
        };
    }
    mod tasks;
}

#[path = "../../lessons/03_param/tests"]
mod lesson03 {
    mod subject {
        pub(super) use ixion::pnnx::link;
        pub(super) use ixion::pnnx::text::{Field, Line, dim, field, number, operator_line, shape, word};
    }
    mod tasks;
}

#[path = "../../lessons/04_weights/tests"]
mod lesson04 {
    mod subject {
        pub(super) use ixion::op::RuntimeAttribute;
        pub(super) use ixion::pnnx::archive::{
            checksum, entry_at, extra, local_header, sizes, walk, zip64_extra,
        };
        pub(super) use ixion::pnnx::value::{
            items, list_body, parse_list, parse_scalar, parse_value, starts_like_a_number,
        };
        pub(super) use ixion::pnnx::{decode_floats, element_count};
    }
    mod tasks;
}

#[path = "../../lessons/05_runtime_graph/tests"]
mod lesson05 {
    mod subject {
        pub(super) use ixion::graph::draft::{
            add_input, add_operand, add_outputs, add_tensor, connect, flatten, inputs_of, pack,
            runtime_operand, runtime_operator, unpack,
        };
    }
    mod tasks;
}

#[path = "../../lessons/06_order/tests"]
mod lesson06 {
    mod subject {
        pub(super) use ixion::graph::sort::{dependencies, dependents, orderable, topological_order};
        pub(super) use ixion::graph::{last_user, releases};
    }
    mod tasks;
}

#[path = "../../lessons/07_layers/tests"]
mod lesson07 {
    mod subject {
        pub(super) use ixion::op::Registry;
        pub(super) use ixion::ops::naive::{
            LeakyReLU, Linear, ReLU, Sigmoid, like_the_input, map, over_built_in, registry,
        };
    }
    mod tasks;
}

#[path = "../../lessons/08_conv/tests"]
mod lesson08 {
    mod subject {
        pub(super) use ixion::kernels::naive::{Divisor, avg_pool, conv_group, conv2d, max_pool, unfold};
        pub(super) use ixion::kernels::window::Window;
    }
    mod tasks;
}

#[path = "../../lessons/09_expressions/tests"]
mod lesson09 {
    mod subject {
        pub(super) use ixion::kernels::naive::{Step, calculate, postfix};
        pub(super) use ixion::pnnx::expression::{TokenKind, Tokens, parse};
    }
    mod tasks;
}

#[path = "../../lessons/10_resnet/tests"]
mod lesson10 {
    mod subject {
        pub(super) use ixion::ops::naive::window::slid;
        pub(super) use ixion::ops::naive::{
            AdaptiveAvgPool2d, Conv2d, Expression, Flatten, Linear, MaxPool2d, ReLU, residual_network,
        };
        pub(super) use ixion::vision::{accuracy, ranked};
    }
    mod tasks;
}

#[path = "../../lessons/11_detect/tests"]
mod lesson11 {
    mod subject {
        pub(super) use ixion::tensor::{Placement, letterboxed, surround};
        pub(super) use ixion::vision::{
            Confusion, Detection, Frame, Rect, VOID, cell_box, decode_row, detection, highest, most_probable,
            suppress,
        };
    }
    mod tasks;
}

#[path = "../../lessons/12_passes/tests"]
mod lesson12 {
    mod subject {
        pub(super) use ixion::passes::common_subexpressions::{key, merge, twin};
        pub(super) use ixion::passes::constant_folding::{
            MAX_BYTES, SMALL_BYTES, check_size, constants, frontier,
        };
        pub(super) use ixion::passes::dead_code::{is_dead, remove_dead};
        pub(super) use ixion::passes::folding::{
            Affine, Norm, affine, folded_bias, scaled, scaled_transposed,
        };
        pub(super) use ixion::passes::pattern::{
            Captures, ValuePattern, bind_operand, capture, match_params, used_elsewhere,
        };
        pub(super) use ixion::passes::{repeatable, run_to_fixpoint};
    }
    mod tasks;
}

#[path = "../../lessons/13_shapes/tests"]
mod lesson13 {
    mod subject {
        pub(super) use ixion::ops::support::rules::{agreed, joined, positions};
        pub(super) use ixion::shape::update::{Update, larger, same_inputs};
        pub(super) use ixion::shape::walk::{infer_all, infer_operator, known_inputs};
        pub(super) use ixion::shape::{Binding, InputRange, by_name, disorder};
        pub(super) use ixion::tensor::dim::{ceil_div, compute, evaluate, floor_div};
    }
    mod tasks;
}

#[path = "../../lessons/14_memory/tests"]
mod lesson14 {
    mod subject {
        pub(super) use ixion::memory::aliases::{Part, joined, may_overwrite, root};
        pub(super) use ixion::memory::packing::{
            Clash, Packing, Placed, Request, aligned, best_fit, clash, lower_bound, pack_by_time, pack_in,
        };
    }
    mod tasks;
}

#[path = "../../lessons/15_plugins/tests"]
mod lesson15 {
    mod subject {
        pub(super) use ixion::op::lookup::{add, find, replace, route};
        pub(super) use ixion::op::{PluginName, catch_panic};
        pub(super) use ixion::ops::naive::{CopyConcat, Smooth};
    }
    mod tasks;
}

#[path = "../../lessons/16_formats/tests"]
mod lesson16 {
    mod subject {
        pub(super) use ixion::engine::file::header::{
            check_header, check_places, checked, decode, encode, entry,
        };
        pub(super) use ixion::engine::selection::conversion::{price_of_set, sets, want};
        pub(super) use ixion::engine::selection::probe::{MAX_COMBINATIONS, MAX_QUESTIONS, Probe, ask};
        pub(super) use ixion::engine::selection::solver::{
            Choices, Decided, Term, best_responses, entry_of, greedy, solve, spread, unwind,
        };
        pub(super) use ixion::engine::tuning::{Budget, fastest, known_or, usable};
    }
    mod tasks;
}

#[path = "../../lessons/17_low_precision/tests"]
mod lesson17 {
    mod subject {
        pub(super) use ixion::engine::calibration::entropy::{clipped, divergence, in_steps, loss};
        pub(super) use ixion::engine::calibration::{Histogram, Loss, Range, threshold, too_lossy};
        pub(super) use ixion::kernels::naive::{f16_bits, int8_linear, int8_matmul};
        pub(super) use ixion::kernels::quantization::{
            ChannelStep, channel_scale, dequantize, quantize, quantize_channel,
        };
        pub(super) use ixion::tensor::{bf16_bits, bf16_value};
    }
    mod tasks;
}

#[path = "../../lessons/18_capstone/tests"]
mod lesson18 {
    mod subject {
        pub(super) use ixion::engine::{plan_for, run_all};
        pub(super) use ixion::ops::naive::plugin_conv::{
            Configuration, Conv2d, QuantizedWeights, decode, encode, int8_sums, quantize, registry, to_int8,
            unfold_into,
        };
    }
    mod tasks;
}
