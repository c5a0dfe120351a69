//! Published sizes of networks, and settings that make none.

mod rev_swin;

use burn::module::Module;
use burn::tensor::Device;
use reprop_models::{RevMvitConfig, RevRobertaConfig};

#[test]
fn published_sizes_of_other_families_have_the_published_parameters() {
    let mvit = RevMvitConfig::base().init(0, &Device::flex()).num_params() as f64 / 1e6;
    // Published as about 39 M; where the width doubles is not told to the last matrix.
    assert!((mvit / 39.0 - 1.0).abs() < 0.03, "RevMViT-B: {mvit}");
    let base = RevRobertaConfig::base().init(0, &Device::flex()).num_params() as f64 / 1e6;
    assert!((base / 125.0 - 1.0).abs() < 0.01, "RevRoBERTa-base: {base}");
    let large = RevRobertaConfig::large().init(0, &Device::flex()).num_params() as f64 / 1e6;
    assert!((large / 355.0 - 1.0).abs() < 0.01, "RevRoBERTa-large: {large}");
}

#[test]
fn the_multiscale_network_has_the_published_multiplications() {
    let found = RevMvitConfig::base().multiplications() as f64 / 1e9;
    assert!((found / 8.7 - 1.0).abs() < 0.1, "{found}");
}
