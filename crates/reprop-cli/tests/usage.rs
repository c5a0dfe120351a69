//! Wrong usage gets a sentence with the numbers in it, a way out, and exit code 2; never a panic.

mod common;

use common::{run, stdout};

#[test]
fn wrong_usage_is_told_with_its_numbers() {
    for (arguments, parts) in [
        (vec!["bench", "--model", "nope"], vec!["`nope`", "hint: choose one of", "rev-vit-s"]),
        (vec!["bench", "--strategy", "nope"], vec!["`nope`", "pareprop"]),
        (vec!["bench", "--strategy", "auto"], vec!["budget", "hint: add --budget"]),
        (vec!["bench", "--depth", "0"], vec!["at least 1"]),
        (vec!["bench", "--export", "out.xls"], vec!["out.xls", ".csv"]),
        #[cfg(not(feature = "cuda"))]
        (vec!["bench", "--device", "cuda"], vec!["cuda", "--features cuda"]),
        (vec!["bench", "--device", "cpu:4"], vec!["cpu:4", "1 found", "--device list"]),
        (vec!["--seed", "3"], vec!["a command is missing"]),
        (vec!["bench", "--device", "abacus"], vec!["abacus", "hint: choose one of cpu"]),
        (vec!["train", "--data", "nope"], vec!["`nope`", "digits"]),
        (vec!["train", "--image", "9"], vec!["2 pixels", "image of 9"]),
        (vec!["train", "--image", "16"], vec!["16x16", "8x8", "--image 8"]),
        (vec!["train", "--classes", "3"], vec!["3 classes", "10"]),
        (vec!["train", "--batch", "0"], vec!["at least 1"]),
        (vec!["train", "--lr", "nan"], vec!["NaN"]),
        (vec!["train", "--lr", "-1"], vec!["finite number from 0 on", "-1"]),
        (
            vec!["schedule", "--method", "async", "--steps", "9", "--slots", "2", "--write", "-1"],
            vec!["write cost is -1"],
        ),
        (
            vec!["verify", "--model", "lstm-char"],
            vec!["lstm-char is a recurrence", "hint: `train` and `plan`"],
        ),
        (vec!["train", "--ema", "1"], vec!["[0, 1)"]),
        (
            vec!["train", "--method", "petra", "--stages", "2", "--precision", "f16"],
            vec!["scaled loss", "hint: choose --precision bf16"],
        ),
        (vec!["train", "--init", "a.pt", "--names", "nope"], vec!["`nope`", "min-rev"]),
        (vec!["train", "--model", "lstm-char", "--ema", "0.9"], vec!["lstm-char", "--ema"]),
        (vec!["data", "get", "imagenet"], vec!["imagenet", "--from"]),
        (vec!["train", "--dropout", "1.5"], vec!["1.5", "[0, 1)"]),
        (vec!["train", "--budget", "lots"], vec!["2GiB"]),
        (vec!["train", "--strategy", "reprop", "--budget", "1GiB"], vec!["reprop", "hint: leave out"]),
        (vec!["train", "--model", "lstm-char", "--strategy", "auto"], vec!["budget", "hint: add --budget"]),
        (vec!["plan", "--model", "rev-vit-s"], vec!["--budget"]),
        (vec!["plan", "--model", "nope", "--budget", "1GiB"], vec!["`nope`", "hint: choose one of"]),
        (
            vec!["plan", "--model", "gru-char", "--predict", "--budget", "1GiB"],
            vec!["chain", "hint: leave out"],
        ),
        (vec!["verify", "--width", "0"], vec!["width", "at least 1"]),
        (vec!["models", "--classes", "0"], vec!["classes", "at least 1"]),
        (vec!["--threads", "0", "models"], vec!["at least 1"]),
        (vec!["dance"], vec!["dance"]),
    ] {
        let output = run(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(parts.iter().all(|part| errors.contains(part)), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty() && !errors.contains("panicked"), "{arguments:?}: {errors}");
    }
}

#[test]
fn devices_are_listed_with_or_without_a_command() {
    for arguments in
        [&["--device", "list", "--format", "json"][..], &["bench", "--device=list", "--format=json"]]
    {
        let listing: serde_json::Value = serde_json::from_str(&stdout(arguments)).expect("a list is JSON");
        assert_eq!((&listing["built"][0], &listing["found"][0]["name"]), (&"cpu".into(), &"cpu".into()));
    }
    assert!(stdout(&["--device", "list"]).starts_with("built with: cpu"));
}

#[test]
fn models_lists_published_sizes() {
    let models: serde_json::Value =
        serde_json::from_str(&stdout(&["models", "--format", "json"])).expect("models writes JSON");
    let small = models.as_array().and_then(|models| models.iter().find(|model| model["name"] == "rev-vit-s"));
    let small = small.expect("rev-vit-s is there");
    assert_eq!(small["parameters"], 22_434_664);
    assert!(small["gmac"].as_f64().is_some_and(|gmac| (gmac - 4.6).abs() < 0.1));
}

#[test]
fn verify_finds_no_difference_and_dumps_what_it_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump");
    let text = stdout(&[
        "verify",
        "--depth",
        "3",
        "--dropout",
        "0.1",
        "--drop-path",
        "0.1",
        "--dump",
        dump.to_str().expect("plain"),
    ]);
    assert!(text.ends_with("verified\n") && !text.contains("NOT"), "{text}");
    for (file, name) in [
        ("weights", "blocks.2.attention.qkv.weight"),
        ("gradients", "blocks.2.mlp.expand.bias"),
        ("batch", "labels"),
        ("outputs", "logits"),
    ] {
        let bytes = std::fs::read(dump.join(format!("{file}.safetensors"))).expect("the file is there");
        let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("a safetensors file");
        assert!(tensors.names().contains(&name), "{file}: {:?}", tensors.names());
    }
}

#[test]
fn finite_differences_agree_where_the_loss_has_kinks() {
    let small = ["--model", "rev-resnet-18", "--image", "32", "--width", "4", "--batch", "2"];
    let text = stdout(&[&["verify"][..], &small].concat());
    assert!(text.ends_with("\nverified\n"), "{text}");
}

#[test]
fn strategies_agree_on_a_network_of_text() {
    let small =
        ["--model", "rev-roberta-base", "--depth", "2", "--width", "8", "--batch", "1", "--format", "json"];
    let verdict = stdout(&[&["verify"][..], &small].concat());
    let verdict: serde_json::Value = serde_json::from_str(&verdict).expect("a verdict in JSON");
    assert_eq!(verdict["passed"], true, "{verdict}");
    let strategies = verdict["strategies"].as_array().expect("strategies");
    assert_eq!(strategies.len(), 2);
    for strategy in strategies {
        assert_eq!(strategy["differing"], serde_json::json!([]), "{verdict}");
        assert_eq!(strategy["gradient_digest"], verdict["gradient_digest"]);
    }
    let results = stdout(&[&["bench", "--warmup", "0", "--steps", "1"][..], &small].concat());
    let results: serde_json::Value = serde_json::from_str(&results).expect("results in JSON");
    let digests: Vec<&serde_json::Value> =
        results["runs"].as_array().expect("runs").iter().map(|run| &run["gradient_digest"]).collect();
    assert_eq!(digests.len(), 3);
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}
