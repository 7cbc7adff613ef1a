//! Runs the tests of all lessons on the framework itself, which is the course's reference solution.
//!
//! Each lesson's tests are next to its starter and use `super::subject`. There, it is the learner's code; here, it is the
//! framework:
//!
//! ```ignore
//! #[path = "../../lessons/08_conv/tests"]
//! mod lesson08 {
//!     mod subject {
//!         pub(super) use ixion::course::naive::{conv2d, unfold};
//!     }
//!     mod tasks;
//! }
//! ```

#[path = "../../lessons/01_arrays/tests"]
mod lesson01 {
    mod subject {
        pub(super) use ixion::course::naive::{
            add, all_close, axpy, is_close, matmul, norm, sigmoid, solve, solve_upper, subtract,
        };
    }
    mod tasks;
}

#[path = "../../lessons/02_tensor/tests"]
mod lesson02 {
    mod subject {
        pub(super) use ixion::course::naive::{fill, flatten, pad_constant, pad_source, reshape};
        pub(super) use ixion::course::{
            contiguous_strides, expanded_axes, index_of, merged_axes, position, reshaped_axes,
        };
        pub(super) use ixion::tensor::broadcast_shapes;
    }
    mod tasks;
}

#[path = "../../lessons/03_param/tests"]
mod lesson03 {
    mod subject {
        pub(super) use ixion::course::link;
        pub(super) use ixion::course::text::{Field, Line, dim, field, number, operator_line, shape, word};
    }
    mod tasks;
}

#[path = "../../lessons/04_weights/tests"]
mod lesson04 {
    mod subject {
        pub(super) use ixion::course::archive::{
            checksum, entry_at, extra, local_header, sizes, walk, zip64_extra,
        };
        pub(super) use ixion::course::value::{
            items, list_body, parse_list, parse_scalar, parse_value, starts_like_a_number,
        };
        pub(super) use ixion::course::{decode_floats, element_count};
        pub(super) use ixion::op::RuntimeAttribute;
    }
    mod tasks;
}

#[path = "../../lessons/05_runtime_graph/tests"]
mod lesson05 {
    mod subject {
        pub(super) use ixion::course::draft::{
            add_input, add_operand, add_outputs, add_tensor, connect, flatten, inputs_of, pack,
            runtime_operand, runtime_operator, unpack,
        };
    }
    mod tasks;
}

#[path = "../../lessons/06_order/tests"]
mod lesson06 {
    mod subject {
        pub(super) use ixion::course::sort::{dependencies, dependents, orderable, topological_order};
        pub(super) use ixion::course::{last_user, releases};
    }
    mod tasks;
}

#[path = "../../lessons/07_layers/tests"]
mod lesson07 {
    mod subject {
        pub(super) use ixion::course::layers::{
            LeakyReLU, Linear, ReLU, Sigmoid, like_the_input, map, over_built_in, registry,
        };
        pub(super) use ixion::op::Registry;
    }
    mod tasks;
}

#[path = "../../lessons/08_conv/tests"]
mod lesson08 {
    mod subject {
        pub(super) use ixion::course::naive::{Divisor, avg_pool, conv_group, conv2d, max_pool, unfold};
        pub(super) use ixion::course::window::Window;
    }
    mod tasks;
}

#[path = "../../lessons/09_expressions/tests"]
mod lesson09 {
    mod subject {
        pub(super) use ixion::course::expression::{TokenKind, Tokens, parse};
        pub(super) use ixion::course::naive::{Step, calculate, postfix};
    }
    mod tasks;
}

#[path = "../../lessons/10_resnet/tests"]
mod lesson10 {
    mod subject {
        pub(super) use ixion::course::layers::window::slid;
        pub(super) use ixion::course::layers::{
            AdaptiveAvgPool2d, Conv2d, Expression, Flatten, Linear, MaxPool2d, ReLU, residual_network,
        };
        pub(super) use ixion::vision::{accuracy, ranked};
    }
    mod tasks;
}

#[path = "../../lessons/11_detect/tests"]
mod lesson11 {
    mod subject {
        pub(super) use ixion::course::{cell_box, decode_row, detection, highest, most_probable};
        pub(super) use ixion::tensor::{Placement, letterboxed, surround};
        pub(super) use ixion::vision::{Confusion, Detection, Frame, Rect, VOID, suppress};
    }
    mod tasks;
}

#[path = "../../lessons/12_passes/tests"]
mod lesson12 {
    mod subject {
        pub(super) use ixion::course::common_subexpressions::{key, merge, twin};
        pub(super) use ixion::course::constant_folding::{
            MAX_BYTES, SMALL_BYTES, check_size, constants, frontier,
        };
        pub(super) use ixion::course::dead_code::{is_dead, remove_dead};
        pub(super) use ixion::course::folding::{
            Affine, Norm, affine, folded_bias, scaled, scaled_transposed,
        };
        pub(super) use ixion::course::pattern::{
            Captures, ValuePattern, bind_operand, capture, match_params, used_elsewhere,
        };
        pub(super) use ixion::course::{repeatable, run_to_fixpoint};
    }
    mod tasks;
}

#[path = "../../lessons/13_shapes/tests"]
mod lesson13 {
    mod subject {
        pub(super) use ixion::course::dim::{ceil_div, compute, evaluate, floor_div};
        pub(super) use ixion::course::rules::{agreed, joined, positions};
        pub(super) use ixion::course::update::{Update, larger, same_inputs};
        pub(super) use ixion::course::walk::{infer_all, infer_operator, known_inputs};
        pub(super) use ixion::course::{Binding, by_name, disorder};
        pub(super) use ixion::shape::InputRange;
    }
    mod tasks;
}

#[path = "../../lessons/14_memory/tests"]
mod lesson14 {
    mod subject {
        pub(super) use ixion::course::aliases::{Part, joined, may_overwrite, root};
        pub(super) use ixion::course::packing::{
            Clash, Packing, Placed, Request, aligned, best_fit, clash, lower_bound, pack_by_time, pack_in,
        };
    }
    mod tasks;
}

#[path = "../../lessons/15_plugins/tests"]
mod lesson15 {
    mod subject {
        pub(super) use ixion::course::catch_panic;
        pub(super) use ixion::course::layers::{CopyConcat, Smooth};
        pub(super) use ixion::course::lookup::{add, find, replace, route};
        pub(super) use ixion::op::PluginName;
    }
    mod tasks;
}

#[path = "../../lessons/16_formats/tests"]
mod lesson16 {
    mod subject {
        pub(super) use ixion::course::conversion::{price_of_set, sets, want};
        pub(super) use ixion::course::header::{check_header, check_places, checked, decode, encode, entry};
        pub(super) use ixion::course::probe::{MAX_COMBINATIONS, MAX_QUESTIONS, Probe, ask};
        pub(super) use ixion::course::solver::{
            Choices, Decided, Term, best_responses, entry_of, greedy, solve, spread, unwind,
        };
        pub(super) use ixion::course::tuning::{Budget, fastest, known_or, usable};
    }
    mod tasks;
}

#[path = "../../lessons/17_low_precision/tests"]
mod lesson17 {
    mod subject {
        pub(super) use ixion::course::entropy::{clipped, divergence, in_steps, loss};
        pub(super) use ixion::course::naive::{f16_bits, int8_linear, int8_matmul};
        pub(super) use ixion::course::quantization::{
            ChannelStep, channel_scale, dequantize, quantize, quantize_channel,
        };
        pub(super) use ixion::course::{bf16_bits, bf16_value, threshold, too_lossy};
        pub(super) use ixion::engine::calibration::{Histogram, Loss, Range};
    }
    mod tasks;
}

#[path = "../../lessons/18_capstone/tests"]
mod lesson18 {
    mod subject {
        pub(super) use ixion::course::layers::plugin_conv::{
            Configuration, Conv2d, QuantizedWeights, decode, encode, int8_sums, quantize, registry, to_int8,
            unfold_into,
        };
        pub(super) use ixion::engine::{plan_for, run_all};
    }
    mod tasks;
}
