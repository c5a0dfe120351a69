//! The report in a real browser, headless. `cargo xtask check` runs this where it finds one, and says so where not.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reprop_report::{Format, Machine, Peers, Results, Run, Timeline, TimelineSpan};

/// Looks at the page from inside, after its own script, and leaves what it saw on the root element.
const PROBE: &str = r#"<script>
const saw = {};
saw.width = innerWidth;
saw.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const boxes = [...document.querySelectorAll("svg[role=img]")].map((svg) => svg.getBoundingClientRect());
saw.charts = boxes.length;
saw.drawn = boxes.filter((box) => box.width > 200 && box.height > 50).length;
saw.named = [...document.querySelectorAll("svg[role=img]")].filter((svg) =>
  svg.getAttribute("aria-labelledby").split(" ").every((id) => document.getElementById(id).textContent.length > 5)).length;
saw.ids = document.querySelectorAll("[id]").length - new Set([...document.querySelectorAll("[id]")].map((e) => e.id)).size;
saw.headings = [...document.querySelectorAll("h1, h2")].map((head) => head.textContent).join("; ");
const table = document.querySelector("table.sortable");
const cells = () => [...table.tBodies[0].rows].map((row) => Number.parseFloat(row.cells[1].textContent)).join(" ");
const button = table.tHead.querySelectorAll("button")[1];
button.focus();
saw.focus = document.activeElement === button;
button.click(); button.click();
saw.sorted = table.tHead.rows[0].cells[1].getAttribute("aria-sort") + " " + cells();
document.documentElement.dataset.saw = JSON.stringify(saw);
</script></body>"#;

fn sample() -> Results {
    let mut runs = Vec::new();
    for (depth, batch) in [(6, 1), (6, 4), (12, 1), (12, 4)] {
        for (strategy, bytes, speed) in
            [("stored", depth as u64, 3.0), ("reprop", 2, 4.0), ("pareprop", 3, 3.5)]
        {
            let time = 0.01 * speed * (batch * depth) as f64;
            let run = Run {
                model: "rev-vit-s".into(),
                image: Some(224),
                batch,
                depth,
                strategy: strategy.into(),
                threads: 2,
                activation_peak_bytes: (bytes * batch as u64) << 20,
                predicted_activation_bytes: Some((bytes * batch as u64) << 20),
                gradient_digest: "0123456789abcdef".repeat(2),
                ..Run::default()
            };
            runs.push(run.timed(vec![time, 1.1 * time, 0.9 * time]));
        }
    }
    let span = |activity: &str, place, worker, begin| TimelineSpan {
        activity: activity.into(),
        place,
        worker,
        begin,
        seconds: 0.1,
    };
    let spans = vec![
        span("forward", 1, 0, 0.0),
        span("grads", 2, 0, 0.1),
        span("recover", 1, 1, 0.12),
        span("grads", 1, 0, 0.25),
    ];
    let timelines = vec![Timeline {
        model: "rev-vit-s".into(),
        batch: 4,
        depth: 12,
        strategy: "pareprop".into(),
        threads: 2,
        spans,
    }];
    Results { machine: Machine::look(), runs, timelines }
}

fn page() -> String {
    let peers = r#"{"peer": "PyTorch", "threads": 2, "pairs_ours_peer_ms": {"rev-vit-s stored 4": [[1400.0, 1500.0]]},
        "peer_memory": {"rev-vit-s stored 4": {"bytes": 60000000, "depth": 12, "image": 224}}}"#;
    Format::Html.render(&sample(), Some(&Peers::parse(peers).expect("peers")))
}

/// The first of the usual names that is there; `BROWSER_PROGRAM` goes before.
fn browser() -> PathBuf {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
    let folders: Vec<PathBuf> = std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    let found =
        names.iter().find_map(|name| folders.iter().map(|at| at.join(name)).find(|path| path.is_file()));
    let given = std::env::var_os("BROWSER_PROGRAM").map(PathBuf::from);
    given.or(found).expect("a browser: install chromium, or set BROWSER_PROGRAM")
}

/// What the browser made of the page, and what it said on the console.
fn open(folder: &Path, page: &str, flags: &[&str]) -> (String, String) {
    let file = folder.join("report.html");
    fs::write(&file, page).expect("a file");
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(folder.join("profile"));
    let output = Command::new(browser())
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-sync",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=2000"])
        .args(flags)
        .arg(profile)
        .arg(&file)
        .output()
        .expect("the browser starts");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "the browser ended with {}: {log}", output.status);
    let console = log.lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}

/// Headless windows are at least as wide as this.
const NARROWEST: u32 = 500;

/// The page in a frame as wide as a phone, with what its probe saw passed on.
fn framed(page: &str, width: u32) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!doctype html><iframe style=\"width:{width}px;height:900px;border:0\" srcdoc=\"{page}\"></iframe><script>\
         const frame = document.querySelector('iframe');\
         frame.addEventListener('load', () => \
         document.documentElement.dataset.saw = frame.contentDocument.documentElement.dataset.saw);</script>"
    )
}

/// What the probe saw in a window of this size.
fn look(width: u32, dark: bool) -> serde_json::Value {
    let folder = Folder::new(&format!("look-{width}-{dark}"));
    let size = format!("--window-size={width},900");
    let mut flags = vec!["--dump-dom", &size];
    if dark {
        flags.push("--force-dark-mode");
    }
    let probed = page().replacen("</body>", PROBE, 1);
    let shown = if width < NARROWEST { framed(&probed, width) } else { probed };
    let (dom, console) = open(&folder.0, &shown, &flags);
    assert_eq!(console, "", "nothing on the console");
    let start = dom.find("data-saw=\"").expect("the probe ran") + "data-saw=\"".len();
    let end = start + dom[start..].find('"').expect("the attribute ends");
    serde_json::from_str(&dom[start..end].replace("&quot;", "\"")).expect("what the probe wrote")
}

/// A folder that goes away with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("reprop-report-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
#[ignore = "needs a browser; cargo xtask check runs it"]
fn the_report_is_drawn_on_a_wide_screen_and_on_a_phone() {
    for (width, dark) in [(1200, false), (1200, true), (360, false)] {
        let saw = look(width, dark);
        assert_eq!(saw["width"], width, "{saw}");
        assert_eq!(saw["overflow"], 0, "nothing but tables scrolls sideways: {saw}");
        // Throughput by depth (2); memory by depth (2) and by batch (2); ladder (2); timeline (1).
        assert_eq!(
            (&saw["charts"], &saw["drawn"], &saw["named"]),
            (&9.into(), &9.into(), &9.into()),
            "{saw}"
        );
        assert_eq!(saw["ids"], 0, "ids are unique: {saw}");
        assert_eq!(
            saw["headings"],
            "rev-vit-s; Throughput; Memory; Time against memory; Inside one step; Beside another framework; All runs; \
             Machine"
        );
        assert_eq!(saw["focus"], true, "headings take the keyboard's focus: {saw}");
        assert_eq!(saw["sorted"], "descending 4 4 4 4 4 4 1 1 1 1 1 1");
    }
}

#[test]
#[ignore = "needs a browser; cargo xtask check runs it"]
fn an_error_on_the_console_would_be_seen() {
    let folder = Folder::new("error");
    let broken = page().replacen("</body>", "<script>throw new Error('seen')</script></body>", 1);
    let (_, console) = open(&folder.0, &broken, &["--dump-dom"]);
    assert!(console.contains("seen"), "{console}");
}

#[test]
#[ignore = "needs a browser; cargo xtask check runs it"]
fn the_report_prints() {
    let folder = Folder::new("print");
    let paper = folder.0.join("report.pdf");
    let flag = format!("--print-to-pdf={}", paper.display());
    let (_, console) = open(&folder.0, &page(), &[&flag, "--no-pdf-header-footer"]);
    assert_eq!(console, "");
    let bytes = fs::read(&paper).expect("the paper is there");
    assert!(bytes.starts_with(b"%PDF") && bytes.len() > 20_000, "{} bytes", bytes.len());
}
