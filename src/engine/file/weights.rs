//! The weights of a plan, and the table that locates each of them.

use super::error::PlanFileProblem;
use super::header::{long, number};
use super::layout::{Kind, aligned};
use crate::pnnx::{Attribute, Entry, Graph};

/// Weights begin at multiples of this: a cache line, and the widest vector register.
pub(super) const ALIGNMENT: u64 = crate::tensor::ALIGNMENT as u64;
const PLACE: usize = 24;

/// The place of a weight in the section of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) crc32: u32,
}

/// Encodes the table of weights.
pub(super) fn encode(places: &[Place]) -> Vec<u8> {
    let mut table = Vec::with_capacity(places.len() * PLACE);
    for place in places {
        table.extend(place.offset.to_le_bytes());
        table.extend(place.length.to_le_bytes());
        table.extend(place.crc32.to_le_bytes());
        table.extend([0; 4]);
    }
    table
}

/// Decodes the table of a section of weights of `length` bytes. Each weight must begin at the first aligned offset after the
/// previous one.
pub(super) fn decode(table: &[u8], length: u64) -> Result<Vec<Place>, PlanFileProblem> {
    let wrong = |reason: String| PlanFileProblem::corrupt(Kind::Table, reason);
    let rows = table.chunks_exact(PLACE);
    if !rows.remainder().is_empty() {
        return Err(wrong(format!(
            "{} bytes are not a multiple of the {PLACE} bytes of an entry",
            table.len()
        )));
    }
    let mut end = 0;
    let mut places = Vec::with_capacity(rows.len());
    for (position, row) in rows.enumerate() {
        let (offset, length, crc32) = (long(row, 0), long(row, 8), number(row, 16));
        let place = Place {
            offset: offset.unwrap_or_default(),
            length: length.unwrap_or_default(),
            crc32: crc32.unwrap_or_default(),
        };
        if place.offset != aligned(end, ALIGNMENT) || number(row, 20) != Some(0) {
            return Err(wrong(format!("weight {position} does not follow the previous one")));
        }
        end = place.offset.saturating_add(place.length);
        places.push(place);
    }
    match end == length {
        true => Ok(places),
        false => Err(wrong(format!("the weights end at {end}, their section at {length}"))),
    }
}

/// All attributes of a graph in the order of its text, each with its operator.
pub(super) fn attributes(graph: &Graph) -> impl Iterator<Item = (&str, &str, &Attribute)> {
    graph.operators().flat_map(|(_, operator)| {
        operator.attrs().iter().map(|(key, attribute)| (operator.name(), key.as_str(), attribute))
    })
}

/// The entries of all attributes of a graph, in a file whose section of weights begins at `start`.
pub(super) fn entries(graph: &Graph, places: &[Place], start: u64) -> Result<Vec<Entry>, PlanFileProblem> {
    let wrong = |reason: String| PlanFileProblem::corrupt(Kind::Table, reason);
    let count = attributes(graph).count();
    if count != places.len() {
        return Err(wrong(format!(
            "the table has {} weights, but the graph has {count} attributes",
            places.len()
        )));
    }
    let entry = |((operator, key, attribute), place): ((&str, &str, &Attribute), &Place)| {
        if attribute.byte_len() as u64 != place.length {
            let reason = format!(
                "weight `{key}` of `{operator}` needs {} bytes, not {}",
                attribute.byte_len(),
                place.length
            );
            return Err(wrong(reason));
        }
        let offset = start.saturating_add(place.offset);
        Ok(Entry::new([operator, key].join("."), offset, place.length, place.crc32))
    };
    attributes(graph).zip(places).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_stored_in_order() {
        let place = |offset, length| Place { offset, length, crc32: 5 };
        let places = [place(0, 4), place(64, 0), place(64, 65), place(192, 1)];
        assert_eq!(decode(&encode(&places), 193).unwrap(), places);
        assert!(decode(&encode(&places), 192).is_err());
        assert!(decode(&encode(&[place(0, 4), place(4, 4)]), 8).is_err());
        assert!(decode(&encode(&[place(0, 4), place(0, 4)]), 4).is_err());
        assert!(decode(&encode(&[place(0, u64::MAX), place(0, 4)]), 4).is_err());
        assert!(decode(&encode(&places)[1..], 193).is_err());
        assert!(decode(&[], 0).unwrap().is_empty());
    }
}
