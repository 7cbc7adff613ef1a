//! Small graphs with known plans, run by these plans.

mod lending;
mod random;

use super::testing::{Planned, graph, plan, try_plan};
use super::{Action, Holds, MemoryReport, Root};

const X: &str = "pnnx.Input x 0 1 x #x=(2,4)f32";

/// The plan for these operator lines with an input `x`.
fn of_x(lines: &str) -> Planned {
    plan(&format!("{X}\n{lines}"), &[])
}

#[test]
fn activations_run_in_place_but_never_on_inputs() {
    let mut planned = of_x(
        "F.sigmoid a 1 1 x a
        F.relu b 1 1 a b
        F.tanh c 1 1 b c
        torch.transpose t 1 1 c t dim0=0 dim1=1
        torch.matmul d 2 1 c t d
        pnnx.Output out 1 0 d",
    );
    assert_eq!([planned.action("a"), planned.action("t")], [Action::Forward, Action::Nothing]);
    assert_eq!(["b", "c"].map(|name| planned.action(name)), [Action::InPlace { input: 0 }; 2]);
    assert_eq!(planned.root("x"), Root::Input(0));
    assert_eq!(
        ["a", "b", "c", "t"].map(|name| planned.root(name)),
        [Root::Arena { offset: 0, bytes: 32 }; 4]
    );
    assert_eq!((planned.root("d"), planned.plan.copies.len()), (Root::Output(0), 0));
    assert_eq!((planned.plan.arena_bytes, planned.plan.lower_bound()), (64, 64));
    planned.check();
}

#[test]
fn operands_that_are_read_later_are_not_overwritten() {
    let mut planned = of_x(
        "F.sigmoid a 1 1 x a
        F.relu b 1 1 a b
        F.tanh c 1 1 a c
        pnnx.Expression d 2 1 b c d expr=add(@0,@1)
        pnnx.Output out 1 0 d",
    );
    assert_eq!(planned.action("b"), Action::Forward);
    assert_eq!(planned.action("c"), Action::InPlace { input: 0 });
    planned.check();
}

#[test]
fn a_reshape_at_the_end_costs_no_copy() {
    let mut planned = of_x(
        "F.sigmoid a 1 1 x a
        F.relu b 1 1 a b
        Tensor.reshape c 1 1 b c shape=(8)
        pnnx.Output out 1 0 c",
    );
    assert_eq!(["a", "b", "c"].map(|name| planned.root(name)), [Root::Output(0); 3]);
    assert_eq!((planned.plan.copies.len(), planned.plan.arena_bytes), (0, 0));
    planned.check();
}

#[test]
fn views_inputs_constants_and_duplicate_outputs_are_copied() {
    let mut planned = of_x(
        "pnnx.Attribute k 0 1 k @data=(3)f32
        F.sigmoid a 1 1 x a
        torch.transpose t 1 1 a t dim0=0 dim1=1
        Tensor.reshape r 1 1 a r shape=(8)
        pnnx.Output out 6 0 x k t a a r",
    );
    assert_eq!((planned.root("k"), planned.root("a")), (Root::Constant(0), Root::Output(3)));
    assert_eq!(planned.plan.copies.iter().map(|copy| copy.1).collect::<Vec<_>>(), [0, 1, 2, 4, 5]);
    planned.check();
}

#[test]
fn the_parts_of_a_concatenation_are_written_into_its_output() {
    let mut planned = of_x(
        "F.sigmoid a 1 1 x a
        F.relu b 1 1 a b
        F.tanh c 1 1 x c
        torch.cat d 2 1 b c d dim=0
        F.softmax e 1 1 d e dim=1
        pnnx.Output out 1 0 e",
    );
    assert_eq!(planned.action("d"), Action::Nothing);
    assert_eq!((planned.place("b").layout.offset(), planned.place("c").layout.offset()), (0, 8));
    assert_eq!(planned.plan.arena_bytes, 0);
    planned.check();
}

#[test]
fn parts_that_are_not_contiguous_or_are_used_elsewhere_are_copied() {
    let lines = |cat: &str, outputs: &str| {
        format!(
            "{X}
            F.sigmoid a 1 1 x a
            F.tanh c 1 1 x c
            {cat}
            F.relu e 1 1 d e
            pnnx.Output out {outputs}"
        )
    };
    for (cat, outputs) in [
        ("torch.cat d 2 1 a c d dim=1", "1 0 e"),
        ("torch.cat d 2 1 a a d dim=0", "2 0 e c"),
        ("torch.cat d 2 1 a x d dim=0", "2 0 e c"),
        ("torch.cat d 2 1 a c d dim=0", "2 0 e c"),
    ] {
        let mut planned = plan(&lines(cat, outputs), &[]);
        assert_eq!(planned.action("d"), Action::Forward, "{cat}");
        planned.check();
    }
}

#[test]
fn a_part_that_is_read_after_the_whole_is_overwritten_is_copied() {
    let lines = "
        F.sigmoid a 1 1 x a
        F.tanh c 1 1 x c
        torch.cat d 2 1 a c d dim=0
        F.relu e 1 1 d e
        F.softmax f 1 1 a f dim=0
        torch.cat g 2 1 e f g dim=0";
    let mut planned = plan(&format!("{X}\n{lines}\npnnx.Output out 1 0 g"), &[]);
    assert_eq!((planned.action("d"), planned.action("e")), (Action::Forward, Action::InPlace { input: 0 }));
    planned.check();
}

#[test]
fn a_skip_connection_does_not_raise_the_peak() {
    let mut planned = plan(
        "pnnx.Input x 0 1 x #x=(1,1,64,64)f32
        F.sigmoid a 1 1 x a
        nn.MaxPool2d p 1 1 a p kernel_size=(8,8) stride=(8,8) padding=(0,0) dilation=(1,1) return_indices=False ceil_mode=False
        nn.Upsample u 1 1 p u scale_factor=(8.0,8.0) mode=nearest
        torch.cat d 2 1 a u d dim=1
        torch.mean e 1 1 d e dim=(1,2,3) keepdim=False
        pnnx.Output out 1 0 e",
        &[],
    );
    assert_eq!(planned.action("d"), Action::Nothing);
    // Two planes and the scratch memory of the layers; a copy would need two more planes.
    assert!(planned.plan.arena_bytes < 3 * 64 * 64 * 4);
    planned.check();
}

#[test]
fn donated_inputs_are_overwritten_if_they_are_not_read_later() {
    let mut planned =
        plan(&format!("{X}\nF.relu a 1 1 x a\nF.tanh b 1 1 a b\npnnx.Output out 1 0 b"), &[(0, 0)]);
    assert_eq!((planned.root("b"), planned.plan.copies.len()), (Root::Input(0), 0));
    planned.check();

    let mut planned = plan(
        &format!(
            "{X}\nF.tanh a 1 1 x a\nF.relu b 1 1 x b\npnnx.Expression c 2 1 a b c expr=add(@0,@1)\npnnx.Output out 1 0 a"
        ),
        &[(0, 0)],
    );
    assert_eq!(planned.plan.copies.len(), 1);
    planned.check();
}

#[test]
fn copies_run_before_their_source_is_overwritten() {
    let two = "pnnx.Input x 0 1 x #x=(4)f32\npnnx.Input y 0 1 y #y=(4)f32\n";
    let mut planned = plan(&format!("{two}F.relu a 1 1 x a\npnnx.Output out 3 0 x a y"), &[(0, 1), (1, 0)]);
    assert_eq!(planned.plan.copies.iter().map(|copy| copy.1).collect::<Vec<_>>(), [2, 0, 1]);
    planned.check();
    let exchanged = try_plan(graph(&format!("{two}pnnx.Output out 2 0 x y")), &[(0, 1), (1, 0)]);
    assert!(exchanged.err().unwrap().to_string().contains("donate all but one"));
}

#[test]
fn invalid_donations_are_refused() {
    let lines = format!("{X}\nTensor.reshape a 1 1 x a shape=(8)\npnnx.Output out 2 0 a x");
    for (donations, words) in [
        (&[(0, 0)][..], "input 0 (2×4 f32) is donated to output 0 (8 f32)"),
        (&[(1, 0)], "the graph has 1 inputs and 2 outputs"),
        (&[(0, 1), (0, 0)], "input 0 is donated to output 0, but one of them is already part of a donation"),
    ] {
        let error = try_plan(graph(&lines), donations).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn operators_of_unknown_shape_are_dynamic_and_others_are_not() {
    let planned = of_x(
        "F.relu a 1 1 x a
        aten::nonzero b 1 1 a b
        torch.clone c 1 1 b c
        F.tanh d 1 1 a d
        pnnx.Output out 2 0 c d",
    );
    let dynamic = ["b", "c"].map(|name| planned.action(name));
    assert_eq!((dynamic, planned.action("d")), ([Action::Dynamic; 2], Action::InPlace { input: 0 }));
    assert_eq!(planned.plan.places.iter().filter(|place| place.is_none()).count(), 2);
    assert!(planned.plan.copies.is_empty());
}

#[test]
fn what_has_a_known_size_again_is_planned_again() {
    let planned = of_x(
        "aten::nonzero a 1 1 x a
        Tensor.to b 1 1 a b dtype=torch.float
        torch.sum c 1 1 b c dim=(0)
        torch.cumsum d 1 1 c d dim=0
        F.tanh e 1 1 d e
        pnnx.Output out 2 0 b e",
    );
    assert_eq!(["a", "b", "c"].map(|name| planned.action(name)), [Action::Dynamic; 3]);
    assert_eq!([planned.action("d"), planned.action("e")], [Action::Forward, Action::InPlace { input: 0 }]);
    assert!(matches!(planned.root("c"), Root::Arena { bytes: 8, .. }), "{:?}", planned.root("c"));
    assert_eq!(planned.root("e"), Root::Output(1));
    assert_eq!(planned.plan.places.iter().filter(|place| place.is_none()).count(), 2);
    assert!(planned.plan.copies.is_empty());
}

#[test]
fn scratch_memory_is_in_the_arena_for_its_step_only() {
    let mut planned = plan(
        "pnnx.Input x 0 1 x #x=(1,3,16,16)f32
        nn.Conv2d a 1 1 x a in_channels=3 out_channels=4 kernel_size=(3,3) stride=(2,2) padding=(1,1) dilation=(1,1) groups=1 padding_mode=zeros bias=False @weight=(4,3,3,3)f32
        nn.Conv2d b 1 1 a b in_channels=4 out_channels=4 kernel_size=(3,3) stride=(1,1) padding=(1,1) dilation=(1,1) groups=1 padding_mode=zeros bias=False @weight=(4,4,3,3)f32
        pnnx.Output out 1 0 b",
        &[],
    );
    let workspaces = planned.plan.slots.iter().filter(|slot| matches!(slot.holds, Holds::Workspace(_)));
    assert_eq!(workspaces.count(), planned.workspaces.iter().filter(|&&bytes| bytes > 0).count());
    planned.check();
}

#[test]
fn a_report_distinguishes_weights_constants_and_caller_memory() {
    let planned = of_x(
        "pnnx.Attribute k 0 1 k @data=(4)f32
        torch.unsqueeze u 1 1 k u dim=0
        nn.Linear l 1 1 x a in_features=4 out_features=6 bias=True @weight=(6,4)f32 @bias=(6)f32
        F.relu b 1 1 a b
        torch.cat c 2 1 b b c dim=1
        pnnx.Output out 2 0 c u",
    );
    let report = MemoryReport::new(&planned.graph, &planned.plan);
    assert_eq!((report.weights, report.persistent), (4 * 30, 4 * 4));
    // x, c and u are tensors of the caller.
    assert_eq!(report.caller, 4 * (8 + 24 + 4));
    assert!(report.activations > 0 && report.lower_bound == report.activations + report.workspace);
}
