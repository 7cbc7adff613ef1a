//! Checking that the `.param` and the `.bin` belong together.

use super::Graph;
use crate::attribute::{Attribute, entry_name};
use crate::error::PnnxError;
use crate::operator::Operator;
use std::collections::HashSet;

impl Graph {
    /// Returns an error for each attribute whose bytes are missing or have the wrong size.
    ///
    /// Loading does not fail in these cases, because a graph can be inspected and edited without its weights.
    pub fn check_weights(&self) -> Vec<PnnxError> {
        self.attributes().filter_map(|(_, _, attribute)| Some(attribute.defect()?.into())).collect()
    }

    /// Reads the bytes of all attributes and compares them with the checksums in the archive. Returns an error
    /// for each attribute that is damaged or missing.
    pub fn verify_checksums(&self) -> Vec<PnnxError> {
        self.attributes().filter_map(|(_, _, attribute)| Some(attribute.checksum().err()?.into())).collect()
    }

    /// The entries of the archive that match no attribute's name.
    ///
    /// Right after loading, these are the entries of the `.bin` that the `.param` does not mention. If an operator is
    /// renamed, its entries are listed here although its attributes still use them.
    pub fn unused_entries(&self) -> Vec<String> {
        let Some(archive) = &self.archive else {
            return Vec::new();
        };
        let used: HashSet<String> =
            self.attributes().map(|(operator, key, _)| entry_name(operator.written_name(), key)).collect();
        let names = archive.entries().iter().map(|entry| entry.name().to_owned());
        names.filter(|name| !used.contains(name)).collect()
    }

    /// All attributes, each with its operator and key, in the order in which they are written.
    pub fn attributes(&self) -> impl Iterator<Item = (&Operator, &str, &Attribute)> {
        self.operators().flat_map(|(_, operator)| {
            operator.attrs().iter().map(move |(key, attribute)| (operator, key.as_str(), attribute))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArchiveWriter, WeightError};
    use ixion_tensor::Limits;
    use std::io::Cursor;

    const TEXT: &str = "7767517\n2 1\n\
        pnnx.Attribute w 0 1 x @data=(2)u8 @more=(1)u8\n\
        pnnx.Output out 1 0 x\n";

    fn loaded(entries: &[(&str, &[u8])]) -> Graph {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
        for (name, data) in entries {
            writer.add(name, data).unwrap();
        }
        let bin = writer.finish().unwrap().into_inner();
        Graph::from_bytes(TEXT.as_bytes(), Some(bin), &Limits::default()).unwrap()
    }

    #[test]
    fn a_complete_archive_has_no_defects() {
        let graph = loaded(&[("w.data", &[1, 2]), ("w.more", &[3])]);
        assert!(graph.check_weights().is_empty());
        assert!(graph.verify_checksums().is_empty());
        assert!(graph.unused_entries().is_empty());
    }

    #[test]
    fn all_defects_are_reported_together() {
        let graph = loaded(&[("w.data", &[1, 2, 3]), ("x.y", &[])]);
        let found = graph.check_weights();
        assert!(matches!(found[0], PnnxError::Weight(WeightError::WrongSize { expected: 2, found: 3, .. })));
        assert!(matches!(found[1], PnnxError::Weight(WeightError::Missing { expected: 1, .. })));
        assert_eq!(found.len(), 2);
        assert_eq!(graph.unused_entries(), ["x.y"]);
    }

    #[test]
    fn entries_that_share_a_name_must_be_as_many_as_the_attributes() {
        let text = "7767517\n3 2\npnnx.Attribute w 0 1 x @data=(1)u8\npnnx.Attribute w 0 1 y @data=(1)u8\n\
            pnnx.Output out 1 0 x\n";
        let found = |entries: &[&str]| {
            let mut writer = ArchiveWriter::new(Cursor::new(Vec::new())).with_repeated_names();
            entries.iter().for_each(|name| writer.add(name, &[1]).unwrap());
            let bin = writer.finish().unwrap().into_inner();
            let graph = Graph::from_bytes(text.as_bytes(), Some(bin), &Limits::default()).unwrap();
            graph.check_weights().iter().map(ToString::to_string).collect::<Vec<String>>()
        };
        assert!(found(&["w.data", "w.data"]).is_empty());
        let others: [(&[&str], &str); 3] =
            [(&["w.data"], "has 1"), (&["w.data"; 3], "has 3"), (&[], "has 0")];
        for (entries, count) in others {
            let found = found(entries);
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found[1].starts_with("operator `w@2`, attribute `data`: 2 attribute(s)"), "{found:?}");
            assert!(found.iter().all(|error| error.contains(count)), "{found:?}");
        }
        let twice: [(&str, &[u8]); 3] = [("w.data", &[1, 2]), ("w.data", &[1, 2]), ("w.more", &[3])];
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new())).with_repeated_names();
        twice.iter().for_each(|(name, data)| writer.add(name, data).unwrap());
        let bin = writer.finish().unwrap().into_inner();
        let graph = Graph::from_bytes(TEXT.as_bytes(), Some(bin), &Limits::default()).unwrap();
        let found = graph.check_weights();
        assert!(
            matches!(&found[..], [PnnxError::Weight(WeightError::SharedName { wanted: 1, found: 2, .. })]),
            "{found:?}"
        );
    }

    #[test]
    fn without_an_archive_all_weights_are_missing() {
        let graph = Graph::parse(TEXT, &Limits::default()).unwrap();
        assert_eq!(graph.check_weights().len(), 2);
        assert!(graph.unused_entries().is_empty());
    }

    #[test]
    fn damaged_bytes_are_found() {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
        writer.add("w.data", &[1, 2]).unwrap();
        writer.add("w.more", &[77]).unwrap();
        let mut bin = writer.finish().unwrap().into_inner();
        let at = bin.iter().position(|&byte| byte == 77).unwrap();
        bin[at] = 78;
        let graph = Graph::from_bytes(TEXT.as_bytes(), Some(bin), &Limits::default()).unwrap();
        assert!(graph.check_weights().is_empty());
        let found = graph.verify_checksums();
        assert!(
            matches!(&found[..], [PnnxError::Weight(WeightError::Checksum { key, .. })] if key == "more")
        );
    }
}
