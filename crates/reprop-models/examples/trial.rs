//! Trial.
use burn::tensor::{Device, Distribution, Int, Tensor};
use reprop::{Mode, Network as _, Pass, Strategy};
use reprop_models::RevVitConfig;
use std::time::Instant;
fn main() {
    reprop::keep_freed_memory();
    reprop::join_pool(None);
    let device = Device::flex();
    for (image, width, heads, batch, rounds) in [
        (32, 64, 2, 1, 400),
        (32, 64, 2, 4, 300),
        (32, 64, 2, 16, 150),
        (32, 128, 2, 2, 300),
        (32, 128, 2, 4, 200),
        (32, 128, 2, 8, 150),
        (32, 128, 2, 16, 100),
        (32, 192, 3, 2, 200),
        (32, 192, 3, 4, 150),
        (32, 192, 3, 8, 100),
        (32, 192, 3, 16, 60),
        (32, 384, 6, 1, 150),
        (32, 384, 6, 2, 100),
        (32, 384, 6, 4, 60),
    ] {
        let config = RevVitConfig {
            channels: 3,
            classes: 10,
            ..RevVitConfig::new(image, 4, width, 12, heads, 4 * width)
        };
        let network = config.init(1, &device.clone().autodiff());
        let images = Tensor::<4>::random([batch, 3, image, image], Distribution::Normal(0.0, 1.0), &device);
        let labels = Tensor::<1, Int>::zeros([batch], &device);
        let strategies = [
            Strategy::Planned(Mode { blocks_kept: 1, ..Mode::default() }),
            Strategy::Planned(Mode { blocks_kept: 2, ..Mode::default() }),
            Strategy::Planned(Mode { blocks_kept: 1, overlap: true, ..Mode::default() }),
        ];
        let mut times = vec![Vec::new(); strategies.len()];
        for round in 0..rounds + 5 {
            for (i, s) in strategies.iter().enumerate() {
                let t = Instant::now();
                network.step(images.clone(), labels.clone(), Pass::training(1), *s).unwrap();
                if round >= 5 {
                    times[i].push(t.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
        let med = |v: &mut Vec<f64>| {
            v.sort_by(f64::total_cmp);
            v[v.len() / 2]
        };
        let [a, b, c] = [0, 1, 2].map(|i| med(&mut times[i]));
        let rows = batch * ((image / 4) * (image / 4) + 1);
        println!(
            "width {width} rows {rows} per thread {:.2} M: reprop {a:.2} ms, kept 2 {:.3}, overlap {:.3}",
            3.0 * (rows * width * width) as f64 / 2e6,
            a / b,
            a / c
        );
    }
}
