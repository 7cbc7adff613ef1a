//! The requirements of each task of lesson 14.

use super::subject::{
    Clash, Packing, Part, Placed, Request, aligned, best_fit, clash, joined, lower_bound, may_overwrite,
    pack_by_time, pack_in, root,
};
use ixion::course::Problem;
use ixion::graph::RuntimeGraph;
use ixion::memory::MemoryPlan;
use ixion::op::TensorMeta;
use ixion::shape::Shapes;
use ixion::tensor::DType;
use std::path::{Path, PathBuf};

fn request(bytes: usize, first: usize, last: usize) -> Request {
    Request { bytes, first, last }
}

/// The network on the page: request 0 is read by the next step and, past it, by step 3.
fn network() -> [Request; 5] {
    [request(128, 0, 3), request(256, 1, 2), request(128, 2, 3), request(192, 3, 4), request(64, 4, 5)]
}

fn placed(spans: &[(usize, usize)], first: usize, last: usize) -> Vec<Placed> {
    let one =
        |&(offset, end): &(usize, usize)| Placed { offset, end, request: request(end - offset, first, last) };
    spans.iter().map(one).collect()
}

#[test]
fn task1_bars_that_touch_meet() {
    let a = request(1, 2, 4);
    for (first, last, meets) in
        [(0, 1, false), (0, 2, true), (3, 3, true), (4, 9, true), (5, 9, false), (0, 9, true)]
    {
        let b = request(1, first, last);
        let hint = "A lifetime includes both ends: in its last step a buffer is still read.";
        assert_eq!(a.meets(&b), meets, "2 to 4, and {first} to {last}. {hint}");
        assert_eq!(b.meets(&a), meets, "{first} to {last}, and 2 to 4: `meets` is symmetric.");
    }
}

#[test]
fn task1_steps_are_counted_with_both_ends() {
    assert_eq!(request(1, 3, 3).steps(), 1, "from step 3 to step 3 is one step");
    assert_eq!(request(1, 2, 5).steps(), 4, "steps 2, 3, 4 and 5");
    assert_eq!(request(1, 5, 2).steps(), 1, "first and last may be invalid: saturate, and do not panic");
    assert_eq!(request(1, 0, usize::MAX).steps(), usize::MAX, "more steps than a usize can count: saturate");
}

#[test]
fn task1_offsets_are_multiples_of_64() {
    let found = [0, 1, 64, 65, 1000].map(aligned);
    assert_eq!(found, [0, 64, 64, 128, 1024], "0 and 64 are multiples already");
    assert_eq!(aligned(usize::MAX), usize::MAX, "there is no multiple above: saturate, and do not panic");
}

#[test]
fn task2_the_fullest_step_decides() {
    let found = lower_bound(&network());
    assert_ne!(found, 768, "That is the sum of all. Not all of them are alive at the same time.");
    let hint = "Too small: a request is gone only in the step after its last one. Too large: what ends must be subtracted before what begins.";
    assert_eq!(found, 512, "step 2: 128 + 256 + 128. {hint}");
    assert_eq!(lower_bound(&[]), 0, "no requests need no bytes");
    let huge = [request(usize::MAX, 0, usize::MAX), request(usize::MAX, 0, 1)];
    assert_eq!(lower_bound(&huge), usize::MAX, "more than a usize: saturate, bytes as well as steps");
}

#[test]
fn task2_a_buffer_is_alive_in_its_last_step() {
    let hint = "One is read in step 1 while the other is written: both are alive.";
    assert_eq!(lower_bound(&[request(64, 0, 1), request(128, 1, 2)]), 192, "{hint}");
    assert_eq!(lower_bound(&[request(64, 0, 1), request(128, 2, 2)]), 128, "The first is gone in step 2.");
}

#[test]
fn task2_bytes_are_aligned() {
    assert_eq!(
        lower_bound(&[request(1, 0, 1), request(65, 0, 1)]),
        192,
        "64 and 128: each begins at a multiple of 64"
    );
}

#[test]
fn task3_the_smallest_gap_is_taken() {
    // Gaps of 128 at 64 and of 64 at 256.
    let there = placed(&[(0, 64), (192, 256), (320, 384)], 0, 9);
    assert_eq!(
        best_fit(&there, &request(64, 3, 4)),
        256,
        "the gap of 64 at 256 fits exactly, the gap of 128 remains for others"
    );
    assert_eq!(
        best_fit(&there, &request(65, 3, 4)),
        64,
        "65 bytes take 128: only the gap at 64 has that many"
    );
    let two = placed(&[(64, 128), (192, 256)], 0, 9);
    assert_eq!(best_fit(&two, &request(64, 3, 4)), 0, "of two gaps of 64, at 0 and at 128, the lower one");
    assert_eq!(best_fit(&there, &request(300, 3, 4)), 384, "if no gap is large enough, it goes on top");
}

#[test]
fn task3_ended_requests_are_not_in_the_way() {
    let there = placed(&[(0, 640)], 0, 2);
    assert_eq!(best_fit(&there, &request(64, 3, 4)), 0, "in step 3, nothing is stored there any more");
    assert_eq!(best_fit(&there, &request(64, 2, 4)), 640, "in step 2, it is still read");
    assert_eq!(best_fit(&[], &request(64, 0, 0)), 0, "the arena is empty");
}

#[test]
fn task3_those_in_the_way_may_overlap_each_other() {
    // The long one of steps 0 to 1 and the short one of steps 2 to 3 share byte 0; the new one meets both.
    let mut there = placed(&[(0, 256)], 0, 1);
    there.extend(placed(&[(0, 64)], 2, 3));
    let hint = "The memory is taken up to 256, though the last one in the list ends at 64.";
    assert_eq!(best_fit(&there, &request(64, 1, 2)), 256, "{hint}");
}

#[test]
fn task4_each_request_takes_its_place() {
    let mut packing = Packing::empty(2);
    let mut there = placed(&[(64, 128)], 0, 9);
    packing.bytes = 128;
    packing.lay_down(&mut there, 1, &request(10, 0, 0));
    assert_eq!(packing.offsets, [0, 0], "request 1 fits into the gap at 0");
    assert_eq!(packing.bytes, 128, "The arena stays as large as it was: 10 bytes at 0 end below.");
    let offsets: Vec<usize> = there.iter().map(|one| one.offset).collect();
    assert_eq!(offsets, [0, 64], "`placed` is sorted by offset, not by time");
    packing.lay_down(&mut there, 0, &request(100, 0, 0));
    assert_eq!((packing.offsets, packing.bytes), (vec![128, 0], 256), "the next one goes on top");
    assert_eq!((there[2].end, there[2].request), (256, request(100, 0, 0)), "its end is aligned: 128 + 128");
}

#[test]
fn task4_the_order_decides() {
    let by_size = pack_in(&network(), &[1, 3, 0, 2, 4]);
    let hint = "Offsets are in the order of the requests.";
    assert_eq!(by_size.offsets, [256, 0, 384, 0, 192], "The largest first: 256, 192, 128, 128, 64. {hint}");
    assert_eq!(by_size.bytes, 512, "which reaches the lower bound");
    // The second lives longest. If the first is below it, that gap is too small for the third.
    let three = [request(64, 0, 1), request(64, 0, 3), request(128, 2, 3)];
    assert_eq!(pack_in(&three, &[0, 1, 2]).bytes, 256, "0 at 0, 1 at 64, and 2 does not fit below it");
    assert_eq!(pack_in(&three, &[1, 0, 2]).bytes, 192, "1 at 0, 0 at 64, and 2 where 0 was");
}

#[test]
fn task4_one_scan_along_time() {
    let packing = pack_by_time(&network());
    assert_eq!(packing.offsets, [0, 128, 384, 128, 0], "Written in turn; 3 fits where 1 was, 4 where 0 was.");
    assert_eq!(packing.bytes, 512, "the end of request 2");
    let both_at_once = pack_by_time(&[request(64, 0, 3), request(128, 0, 1), request(64, 2, 2)]);
    let hint = "Of requests that begin in the same step, the larger goes first.";
    assert_eq!(both_at_once.offsets, [128, 0, 0], "{hint}");
    let still_read = pack_by_time(&[request(64, 0, 1), request(64, 1, 2)]);
    assert_eq!(
        still_read.offsets,
        [0, 64],
        "In step 1 the first is still read: it must not be forgotten yet."
    );
    let huge = [request(usize::MAX / 2 + 1, 0, 1); 2];
    assert_eq!(pack_by_time(&huge).bytes, usize::MAX, "What is too large saturates, and is rejected later.");
    let early = pack_by_time(&[request(64, 0, 5), request(64, 0, 1)]);
    assert_eq!(
        early.offsets,
        [64, 0],
        "Of two equally large ones that begin in the same step, the one that ends earlier goes first."
    );
}

#[test]
fn task5_parts_of_parts() {
    let part = |whole, offset| Some(Part { whole, offset });
    // 2 is a part of 1, which is a part of 0; 3 stands alone.
    let parts = [None, part(0, 256), part(1, 64), None];
    assert_eq!(root(&parts, 3), (3, 0), "a buffer that is not a part is its own root");
    assert_eq!(root(&parts, 1), (0, 256), "one step up");
    assert_eq!(root(&parts, 2), (0, 320), "two steps up: 64 within 1, which begins at 256 of 0");
}

#[test]
fn task5_a_whole_lives_as_long_as_its_parts() {
    let found = joined(&request(64, 1, 9), &request(256, 4, 6));
    assert_eq!(
        found,
        request(256, 1, 9),
        "Its bytes contain the part's, which are written in step 1 and read in step 9."
    );
    assert_eq!(
        joined(&request(64, 4, 5), &request(256, 1, 9)),
        request(256, 1, 9),
        "a part cannot shorten its lifetime"
    );
    assert_eq!(joined(&request(512, 4, 5), &request(256, 1, 9)).bytes, 256, "the bytes are the whole's");
}

#[test]
fn task5_three_reasons_not_to_overwrite() {
    let data = request(64, 1, 4);
    assert!(may_overwrite((7, &data), 4, true, &[]), "step 4 is the last to read it, and it is ours");
    assert!(may_overwrite((7, &data), 4, true, &[5, 6]), "other inputs are other buffers");
    let later = "A shortcut around a block reads it after step 3.";
    assert!(!may_overwrite((7, &data), 3, true, &[]), "{later}");
    assert!(
        !may_overwrite((7, &data), 4, false, &[]),
        "The caller's input is not ours, and may be used again."
    );
    assert!(
        !may_overwrite((7, &data), 4, true, &[5, 7]),
        "x + x·y reads its data through another input, too."
    );
}

#[test]
fn task6_a_right_packing_has_no_clash() {
    let packing = Packing { offsets: vec![256, 0, 384, 0, 192], bytes: 512 };
    assert_eq!(
        clash(&network(), &packing),
        None,
        "1 and 3 share byte 0, but never a step; neighbours share no byte"
    );
    assert_eq!(clash(&[], &Packing { offsets: Vec::new(), bytes: 0 }), None, "no requests, no clash");
    let nothing = [request(0, 0, 1), request(64, 0, 1)];
    assert_eq!(
        clash(&nothing, &Packing { offsets: vec![0, 0], bytes: 64 }),
        None,
        "an empty request shares no byte with any other"
    );
}

#[test]
fn task6_each_fault_is_found() {
    let found = |offsets: [usize; 5], bytes| clash(&network(), &Packing { offsets: offsets.to_vec(), bytes });
    assert_eq!(found([256, 0, 384, 0, 192], 448), Some(Clash::Outside(2)), "384 + 128 is more than 448");
    assert_eq!(found([256, 0, 400, 0, 192], 1024), Some(Clash::Unaligned(2)), "400 is not a multiple of 64");
    assert_eq!(
        found([192, 0, 384, 0, 192], 512),
        Some(Clash::Overlap(0, 1)),
        "0 and 1 share bytes 192 to 255 in step 1"
    );
    let far = "Requests 0 and 3 are not adjacent in the list, but both are alive in step 3.";
    assert_eq!(found([64, 256, 512, 0, 192], 640), Some(Clash::Overlap(0, 3)), "{far}");
    let few = Packing { offsets: vec![0], bytes: 512 };
    assert_eq!(clash(&network(), &few), Some(Clash::Count), "one offset for five requests");
    let many = Packing { offsets: vec![0; 6], bytes: 512 };
    assert_eq!(clash(&network(), &many), Some(Clash::Count), "six offsets for five requests");
    let far_out = Packing { offsets: vec![usize::MAX - 63], bytes: 512 };
    assert_eq!(
        clash(&[request(128, 0, 0)], &far_out),
        Some(Clash::Outside(0)),
        "the end does not fit into a usize"
    );
}

/// Pseudo-random requests, the same in every run.
fn made_up(seed: u64) -> Vec<Request> {
    let mut state = seed;
    let mut below = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % most) as usize
    };
    let count = 1 + below(40);
    let mut one = |_| {
        let first = below(30);
        request(below(5000), first, first + below(12))
    };
    (0..count).map(&mut one).collect()
}

/// A property: it holds for all requests, packed in any order.
#[test]
fn task6_a_thousand_packings_are_proved() {
    for seed in 0..1000 {
        let requests = made_up(seed);
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.rotate_left(seed as usize % requests.len());
        let sum: usize = requests.iter().map(|request| aligned(request.bytes)).sum();
        for (name, packing) in
            [("pack_in", pack_in(&requests, &order)), ("pack_by_time", pack_by_time(&requests))]
        {
            let fault = clash(&requests, &packing);
            assert_eq!(fault, None, "{name}, seed {seed}: {requests:?} at {:?}", packing.offsets);
            assert!(
                lower_bound(&requests) <= packing.bytes,
                "{name} needs less than the lower bound, seed {seed}"
            );
            assert!(packing.bytes <= sum, "{name} needs more than separate memory for each, seed {seed}");
        }
    }
}

/// A planted mistake: moving one request onto another that it meets must be detected.
#[test]
fn task6_the_checker_finds_what_is_moved() {
    let mut moved = 0;
    for seed in 0..300 {
        let requests = made_up(seed);
        let packing = pack_by_time(&requests);
        let pair = (1..requests.len()).find_map(|i| {
            let meets =
                |&j: &usize| requests[i].meets(&requests[j]) && requests[i].bytes.min(requests[j].bytes) > 0;
            (0..i).find(meets).map(|j| (i, j))
        });
        let Some((i, j)) = pair else { continue };
        let mut offsets = packing.offsets;
        offsets[i] = offsets[j];
        let fault = clash(&requests, &Packing { offsets, bytes: usize::MAX });
        assert!(
            matches!(fault, Some(Clash::Overlap(..))),
            "seed {seed}: {i} overlaps {j}, but clash returns {fault:?}"
        );
        moved += 1;
    }
    assert!(moved > 250, "most lists have two requests that meet");
}

fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

#[test]
fn task6_a_real_network() {
    let mut graph = RuntimeGraph::new(model_file("shapes_unet/shapes_unet.pnnx.param"));
    graph.build().unwrap();
    let shapes = Shapes::infer(&graph, &[TensorMeta::new(DType::F32, [1, 3, 128, 128])]).unwrap();
    let count = graph.operators().len();
    let (workspaces, constants) = (vec![0; count], vec![false; count]);
    let problem = Problem {
        graph: &graph,
        metas: shapes.metas(),
        workspaces: &workspaces,
        constants: &constants,
        donations: &[],
    };
    let plan = MemoryPlan::new(&problem).unwrap();
    let requests: Vec<Request> =
        plan.slots.iter().map(|slot| request(slot.bytes, *slot.steps.start(), *slot.steps.end())).collect();
    let offsets = plan.slots.iter().map(|slot| slot.offset).collect();
    let hint = "This is the framework's own plan, which is right.";
    assert_eq!(clash(&requests, &Packing { offsets, bytes: plan.arena_bytes }), None, "{hint}");
    assert_eq!(lower_bound(&requests), plan.lower_bound(), "the UNet's fullest step");

    let mut by_size: Vec<usize> = (0..requests.len()).collect();
    by_size.sort_by_key(|&position| std::cmp::Reverse(requests[position].bytes));
    let (large_first, scan) = (pack_in(&requests, &by_size), pack_by_time(&requests));
    assert_eq!(
        (clash(&requests, &large_first), clash(&requests, &scan)),
        (None, None),
        "yours must be right, too"
    );
    let best = large_first.bytes.min(scan.bytes);
    assert!(best < plan.naive_bytes / 2, "{best} bytes of {}: less than half is easy here", plan.naive_bytes);
    assert!(best <= plan.arena_bytes * 5 / 4, "{best} bytes, the framework needs {}", plan.arena_bytes);
}
