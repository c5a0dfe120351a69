use burn::module::Module;
use burn::tensor::Device;
use reprop_models::RevSwinConfig;

#[test]
fn published_sizes_have_the_published_parameters() {
    for (config, millions) in [
        (RevSwinConfig::tiny(), 30.2),
        (RevSwinConfig::small(), 51.5),
        (RevSwinConfig::base(), 90.9),
        (RevSwinConfig::large(), 202.7),
    ] {
        let found = config.init(0, &Device::flex()).num_params() as f64 / 1e6;
        assert!((found - millions).abs() < 0.05, "{found} against {millions}");
    }
}

#[test]
fn windows_are_as_published_at_224_pixels_and_divide_every_side() {
    let config = RevSwinConfig::tiny();
    assert_eq!([56, 28, 14, 7].map(|side| config.window(side)), [7; 4]);
    assert_eq!([16, 8, 4, 2, 1].map(|side| config.window(side)), [4, 4, 4, 2, 1]);
}

#[test]
fn settings_that_make_no_network_are_refused_with_their_numbers() {
    let refused = RevSwinConfig { image: 100, ..RevSwinConfig::tiny() }.check().unwrap_err();
    assert!(refused.contains("100") && refused.contains("32"), "{refused}");
    let refused = RevSwinConfig { image: 352, ..RevSwinConfig::tiny() }.check().unwrap_err();
    assert!(refused.contains("11") && refused.contains("352"), "{refused}");
    assert!(RevSwinConfig { heads: 5, ..RevSwinConfig::tiny() }.check().is_err());
    assert!(RevSwinConfig { depths: vec![], ..RevSwinConfig::tiny() }.check().is_err());
    assert!(RevSwinConfig::tiny().with_drop_path(1.0).check().is_err());
    assert_eq!(RevSwinConfig::tiny().check(), Ok(()));
}
