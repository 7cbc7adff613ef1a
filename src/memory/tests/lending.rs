//! Wrong plans end in errors.

use crate::memory::{Arena, InputBinding, Memory, MemoryError, Place, Root};
use crate::tensor::{DType, Layout, Shape, Tensor, TensorView, TensorViewMut};
use std::ops::Range;

fn arena(offset: usize, dtype: DType, dims: &[usize]) -> Place {
    let shape = Shape::new(dims).unwrap();
    Place::contiguous(Root::Arena { offset, bytes: shape.num_elements() * dtype.size() }, dtype, shape)
}

fn caller(root: Root, dims: &[usize]) -> Place {
    Place::contiguous(root, DType::F32, Shape::new(dims).unwrap())
}

/// Borrows these places from an arena of 256 bytes, two inputs (the second is donated), an output and a constant, each of
/// four f32 elements.
fn lend(reads: &[Place], writes: &[Place], workspace: Range<usize>) -> Result<(), MemoryError> {
    let (mut arena, mut donated) = (Arena::new(256).unwrap(), Tensor::from_vec(vec![5f32; 4], &[4]).unwrap());
    let (shared, mut output) = (donated.deep_copy().unwrap(), donated.deep_copy().unwrap());
    let constants = [None, Some(donated.deep_copy().unwrap())];
    let mut inputs =
        [InputBinding::Shared(shared.view()), InputBinding::Donated(donated.view_mut().unwrap())];
    let mut outputs = [output.view_mut().unwrap()];
    let mut memory =
        Memory { arena: &mut arena, inputs: &mut inputs, outputs: &mut outputs, constants: &constants };
    let mut borrowed = memory.borrow(reads, writes, workspace.clone())?;
    assert_eq!((borrowed.inputs.len(), borrowed.outputs.len()), (reads.len(), writes.len()));
    assert_eq!(borrowed.scratch.len(), workspace.len());
    borrowed.scratch.slice::<u8>(workspace.len()).unwrap().fill(1);
    let sum =
        |view: &TensorView<'_>| view.cast(DType::F64).unwrap().to_vec::<f64>().unwrap().iter().sum::<f64>();
    let before: Vec<f64> = borrowed.inputs.iter().map(sum).collect();
    for output in &mut borrowed.outputs {
        let ones = Tensor::ones(output.dtype(), output.shape()).unwrap();
        output.copy_from(&ones.view()).unwrap();
    }
    assert_eq!(before, borrowed.inputs.iter().map(sum).collect::<Vec<_>>(), "inputs do not change");
    Ok(())
}

fn refusal(reads: &[Place], writes: &[Place], workspace: Range<usize>) -> String {
    lend(reads, writes, workspace).unwrap_err().to_string()
}

const INPUT: Root = Root::Input(0);
const DONATED: Root = Root::Input(1);
const OUTPUT: Root = Root::Output(0);
const CONSTANT: Root = Root::Constant(1);

#[test]
fn neighbours_are_lent_together() {
    let all = [INPUT, DONATED, OUTPUT, CONSTANT].map(|root| caller(root, &[4]));
    lend(&all, &[arena(64, DType::F32, &[4])], 0..64).unwrap();
    lend(&all, &[], 0..0).unwrap();
    lend(&[all[0], all[3]], &[caller(DONATED, &[4]), caller(OUTPUT, &[2, 2])], 0..256).unwrap();
    let numbers = arena(0, DType::F32, &[4]);
    lend(&[numbers, numbers], &[arena(16, DType::F32, &[4])], 64..128).unwrap();
    lend(&[arena(0, DType::F64, &[0])], &[arena(0, DType::F32, &[64])], 0..0).unwrap();
    lend(&[arena(0, DType::Bool, &[64])], &[arena(64, DType::Bool, &[64])], 128..128).unwrap();
}

#[test]
fn written_memory_is_not_aliased() {
    let (low, high) = (arena(0, DType::F32, &[16]), arena(60, DType::F32, &[4]));
    assert!(refusal(&[low], &[high], 0..0).contains("are used at the same time"));
    assert!(refusal(&[], &[low, high], 0..0).contains("are used at the same time"));
    assert!(refusal(&[], &[high], 64..128).contains("are used at the same time"));
    assert!(refusal(&[high], &[], 64..128).contains("are read at the same time"));
    let (donated, output) = (caller(DONATED, &[4]), caller(OUTPUT, &[4]));
    assert!(lend(&[donated], &[donated], 0..0).is_err() && lend(&[output], &[output], 0..0).is_err());
    assert!(lend(&[], &[output, caller(OUTPUT, &[1])], 0..0).is_err());
}

#[test]
fn tensors_of_the_caller_are_not_written() {
    assert!(refusal(&[], &[caller(INPUT, &[4])], 0..0).contains("no donated input 0"));
    assert!(refusal(&[], &[caller(CONSTANT, &[4])], 0..0).contains("no constant 1"));
    for root in [Root::Input(2), Root::Output(1), Root::Constant(0), Root::Constant(9)] {
        assert!(refusal(&[caller(root, &[4])], &[], 0..0).contains("there is no"));
    }
}

#[test]
fn bounds_and_alignment_are_checked() {
    assert!(refusal(&[arena(192, DType::F32, &[17])], &[], 0..0).contains("in an arena of 256"));
    assert!(
        refusal(&[caller(INPUT, &[5])], &[], 0..0).contains("ends at element 5, but its memory has 16 bytes")
    );
    assert!(refusal(&[arena(2, DType::F32, &[4])], &[], 0..0).contains("multiple of its alignment"));
    assert!(refusal(&[], &[], 200..300).contains("scratch memory 200..300 is not aligned"));
    assert!(refusal(&[], &[], 1..64).contains("scratch memory 1..64 is not aligned"));
    let root = Root::Arena { offset: usize::MAX, bytes: 2 };
    assert!(refusal(&[caller(root, &[1])], &[], 0..0).contains("there is no byte"));
    let far = Layout::contiguous(Shape::new(&[1]).unwrap()).with_offset(usize::MAX / 2);
    assert!(lend(&[Place { root: INPUT, dtype: DType::F32, layout: far }], &[], 0..0).is_err());
}

#[test]
fn repeated_elements_are_read_but_not_written() {
    let repeated = Layout::contiguous(Shape::new(&[1]).unwrap()).expand(&[4]).unwrap();
    let place = |root| Place { root, dtype: DType::F32, layout: repeated };
    lend(&[place(INPUT)], &[], 0..0).unwrap();
    assert!(refusal(&[], &[place(OUTPUT)], 0..0).contains("repeats elements"));
}

#[test]
fn bools_are_valid_whatever_the_memory_held() {
    let mut memory = Arena::new(64).unwrap();
    let mut memory = Memory { arena: &mut memory, inputs: &mut [], outputs: &mut [], constants: &[] };
    memory.borrow(&[], &[], 0..64).unwrap().scratch.slice::<u8>(64).unwrap().fill(9);
    let bools = arena(0, DType::Bool, &[8]);
    assert!(memory.borrow(&[bools], &[], 0..0).unwrap_err().to_string().contains("a bool tensor is read"));
    let there = |views: &[TensorViewMut<'_>]| views[0].as_view().to_vec::<bool>().unwrap();
    assert_eq!(there(&memory.borrow(&[], &[bools], 0..0).unwrap().outputs), [true; 8]);
    assert!(memory.borrow(&[bools], &[], 0..0).is_ok());

    let mut output = Tensor::ones(DType::Bool, &[4]).unwrap();
    let (mut arena, mut outputs) = (Arena::new(0).unwrap(), [output.view_mut().unwrap()]);
    let mut memory = Memory { arena: &mut arena, inputs: &mut [], outputs: &mut outputs, constants: &[] };
    assert!(memory.borrow(&[], &[caller(OUTPUT, &[1])], 0..0).is_err());
}
