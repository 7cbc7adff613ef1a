//! `ixion compress`.

use super::command::ixion;

const DIGITS: &str = "digits/digits.pnnx.param";

#[cfg(not(feature = "linalg"))]
#[test]
fn without_the_feature_it_says_how_to_get_it() {
    let error = ixion(["compress", DIGITS, "--rank", "6"]).error(2, std::path::Path::new("."));
    assert!(error.contains("without the feature `linalg`") && error.contains("--features linalg"), "{error}");
    assert!(!ixion(["--help"]).fine().contains("compress"));
}

#[cfg(feature = "linalg")]
mod with_lapack {
    use super::super::command::{Ended, command, ended, models};
    use super::*;
    use std::path::Path;

    fn compress(args: &[&str]) -> Ended {
        ended(command(["compress"]).args(args).output().unwrap())
    }

    fn compressed(args: &[&str]) -> serde_json::Value {
        compress(&[args, &["--json"]].concat()).json()
    }

    #[test]
    fn a_layer_becomes_two_thin_ones() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("thin.pnnx.param");
        let found = compressed(&[DIGITS, "--rank", "6", "-o", target.to_str().unwrap()]);
        let layer = &found["layers"][0];
        assert_eq!(
            (&layer["name"], &layer["rank"], &layer["replaced"]),
            (&"head".into(), &6.into(), &true.into())
        );
        assert_eq!((&layer["weights_before"], &layer["weights_after"]), (&480.into(), &348.into()));
        let (error, moved) = (layer["error"].as_f64().unwrap(), found["outputs"]["error"].as_f64().unwrap());
        assert!(error > 0.01 && error < 0.7 && moved > 0.0 && moved < 1.0, "{found}");
        assert_eq!(found["outputs"]["rows"], 10);
        assert!(found["weight_bytes_after"].as_u64() < found["weight_bytes_before"].as_u64(), "{found}");
        let text = std::fs::read_to_string(&target).unwrap();
        assert!(text.contains("head.thin ") && text.contains("@weight=(6,48)f32"), "{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
        // The written model is the measured one, and it still recognises digits.
        for name in ["model.toml", "in_0.npy"] {
            std::fs::copy(models().join("digits").join(name), folder.path().join(name)).unwrap();
        }
        let said = ixion(["run", target.to_str().unwrap(), "-i", "digits/samples/7.png"]).fine();
        assert!(said.trim_start().starts_with("7 "), "{said}");
    }

    #[test]
    fn an_error_decides_the_rank() {
        // Ten rows have ten singular values; two thin layers of that rank would not be smaller.
        let all = compress(&[DIGITS, "--error", "0.0001"]);
        assert_eq!(all.code, 1);
        assert!(all.stdout.contains("left as it is"), "{}", all.stdout);
        let [fine, coarse] =
            ["0.1", "0.5"].map(|error| compressed(&["linear/linear.pnnx.param", "--error", error]));
        let rank = |found: &serde_json::Value| found["layers"][0]["rank"].as_u64().unwrap();
        assert!(rank(&coarse) < rank(&fine), "{fine}\n{coarse}");
        assert!(coarse["layers"][0]["error"].as_f64().unwrap() <= 0.5);
        assert_eq!(coarse["written"], serde_json::Value::Null);
    }

    #[test]
    fn a_table_for_people() {
        let said = ixion(["compress", DIGITS, "--rank", "6"]).fine();
        for wanted in ["layer", "head", "10×48", "480", "348", "size", "speed", "task", "of 10"] {
            assert!(said.contains(wanted), "{wanted} is not in\n{said}");
        }
    }

    #[test]
    fn what_cannot_be_compressed_is_told() {
        let here = Path::new(".");
        for args in [["--rank", "0"], ["--error", "0"], ["--error", "1"], ["--error", "nan"], ["--rank", "x"]]
        {
            assert_eq!(compress(&[DIGITS, args[0], args[1]]).code, 2, "{args:?}");
        }
        assert_eq!(ixion(["compress", DIGITS]).code, 2, "a rank or an error is required");
        assert_eq!(ixion(["compress", DIGITS, "--rank", "2", "--error", "0.1"]).code, 2, "not both");
        let error = ixion(["compress", "conv3/conv3.pnnx.param", "--rank", "2"]).error(2, here);
        assert!(error.contains("no linear layers"), "{error}");
        let error = ixion(["compress", "resnet18/resnet18.pnnx.param", "--rank", "2"]).error(2, here);
        assert!(error.contains("archive") || error.contains("weight"), "{error}");
        let error = ixion(["compress", DIGITS, "--rank", "6", "-o", "no/such/folder/x.param"]).error(1, here);
        assert!(error.contains("no/such/folder"), "{error}");
    }
}
