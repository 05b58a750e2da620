//! The page in a real browser. Its pictures are left in the `tmp` folder of the build.

use std::path::Path;

use serde_json::json;
use throstle_tests::browser::{Browser, Look};

use super::page::{done, report};

const WIDE: Look = Look { width: 1280, height: 900, dark: false };
const DARK: Look = Look { dark: true, ..WIDE };
const NARROW: Look = Look { width: 400, height: 844, dark: false };

fn open(clips: usize) -> Browser {
    let project = done(clips);
    let page = report(&project, &[]);
    keep(&format!("{clips}-clips.html"), page.as_bytes());
    let mut browser = Browser::open(&project.file("report.html"));
    browser.look(WIDE);
    browser
}

fn keep(name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), bytes).unwrap();
}

#[test]
fn the_page_complains_of_nothing_and_wants_no_network() {
    let mut browser = open(12);
    let buttons = "document.querySelectorAll('button').forEach(button => button.click())";
    browser.evaluate(buttons);
    browser.evaluate("new Promise(done => setTimeout(done, 300))");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn every_player_plays() {
    let mut browser = open(12);
    let players = browser.evaluate("document.querySelectorAll('.player').length");
    assert!(players.as_u64().unwrap() > 10, "{players}");
    let silent = browser.evaluate(
        "(async () => {
            const silent = [];
            for (const player of document.querySelectorAll('.player')) {
                const sound = document.getElementById(player.dataset.sound);
                const plays = () => player.classList.contains('playing') && sound.currentTime > 0;
                player.querySelector('button').click();
                for (let waited = 0; !plays() && waited < 4000; waited += 1) {
                    await new Promise(done => setTimeout(done, 5));
                }
                if (!plays()) silent.push(player.dataset.sound);
            }
            return silent;
        })()",
    );
    assert_eq!(silent, json!([]));
    let sounding = "[...document.querySelectorAll('audio')].filter(sound => !sound.paused).length";
    assert_eq!(browser.evaluate(sounding), 1, "one sounds at a time");
}

#[test]
fn a_table_is_sorted_by_the_heading_that_is_clicked() {
    let mut browser = open(40);
    let column = "[...document.querySelectorAll('#run table.sortable tbody tr')]
        .map(row => row.cells[0].textContent)";
    let given = browser.evaluate(column);
    let click = "document.querySelector('#run table.sortable th button').click()";
    browser.evaluate(click);
    let rising = browser.evaluate(column);
    browser.evaluate(click);
    let falling = browser.evaluate(column);
    let names =
        |rows: &serde_json::Value| -> Vec<String> { serde_json::from_value(rows.clone()).unwrap() };
    let mut sorted = names(&given);
    sorted.sort();
    assert_eq!(names(&rising), sorted);
    sorted.reverse();
    assert_eq!(names(&falling), sorted);
    let sort = "document.querySelector('#run table.sortable th').getAttribute('aria-sort')";
    assert_eq!(browser.evaluate(sort), "descending");
    let numbers = "(() => {
        const table = document.querySelector('#data .table table.sortable');
        table.querySelectorAll('th button')[2].click();
        return [...table.tBodies[0].rows].map(row => Number(row.cells[2].dataset.order));
    })()";
    let numbers: Vec<f64> = serde_json::from_value(browser.evaluate(numbers)).unwrap();
    assert!(numbers.len() > 3 && numbers.is_sorted(), "{numbers:?}");
}

#[test]
fn the_theme_is_that_of_the_system_until_another_is_chosen() {
    let mut browser = open(3);
    let brightness = "(() => {
        const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
        canvas.fillRect(0, 0, 1, 1);
        return canvas.getImageData(0, 0, 1, 1).data[0];
    })()";
    let is_light = |browser: &mut Browser| browser.evaluate(brightness).as_u64().unwrap() > 128;
    assert!(is_light(&mut browser));
    browser.look(DARK);
    assert!(!is_light(&mut browser));
    browser.evaluate("document.getElementById('theme').click()");
    assert!(is_light(&mut browser), "light was chosen");
}

#[test]
fn whoever_does_not_see_it_is_told_what_everything_is() {
    let mut browser = open(12);
    let unnamed = browser.evaluate(
        "[...document.querySelectorAll('button, [role=img], [role=region], section, table')]
            .filter(element => !(element.ariaLabel || element.textContent.trim()))
            .map(element => element.outerHTML.slice(0, 200))",
    );
    assert_eq!(unnamed, json!([]));
    let ids = "(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
        return ids.filter((id, at) => ids.indexOf(id) !== at); })()";
    assert_eq!(browser.evaluate(ids), json!([]), "no two elements have one name");
    let levels = "[...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))";
    let levels: Vec<u8> = serde_json::from_value(browser.evaluate(levels)).unwrap();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
}

/// The contrast ratio required by WCAG 2.2, section 1.4.3, by its formula.
#[test]
fn text_stands_out_from_its_ground_in_both_themes() {
    let mut browser = open(12);
    let faint = "(() => {
        const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        const light = (colour) => {
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map((value) => {
                value /= 255;
                return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        };
        const ground = (element) => {
            const colour = getComputedStyle(element).backgroundColor;
            return colour === 'rgba(0, 0, 0, 0)' ? ground(element.parentElement) : colour;
        };
        const faint = (element) => {
            const lights = [getComputedStyle(element).color, ground(element)].map(light);
            return (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05) < 4.5;
        };
        const told = [...document.querySelectorAll('main *, nav *, footer *')].filter((element) =>
            element instanceof HTMLElement && [...element.childNodes].some((node) =>
                node.nodeType === Node.TEXT_NODE && node.textContent.trim()));
        return told.filter(faint).map((element) => element.outerHTML.slice(0, 120));
    })()";
    for look in [WIDE, DARK] {
        browser.look(look);
        assert_eq!(browser.evaluate(faint), json!([]), "dark: {}", look.dark);
    }
}

#[test]
fn a_narrow_screen_is_not_scrolled_sideways() {
    let mut browser = open(12);
    browser.look(NARROW);
    let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    keep("narrow.png", &browser.screenshot());
    assert_eq!(browser.evaluate(overflow), 0);
}

/// What is outside of the screen from left to right, of these elements where they are shown.
fn beside_the_screen(browser: &mut Browser, elements: &str) -> serde_json::Value {
    browser.evaluate(&format!(
        "[...document.querySelectorAll({elements:?})].map((element) => [element, element.getBoundingClientRect()])
            .filter(([, box]) => box.width > 0 && (box.left < 0 || box.right > innerWidth))
            .map(([element]) => element.outerHTML.slice(0, 120))"
    ))
}

#[test]
fn on_a_phone_every_player_and_the_whole_menu_are_in_view() {
    let mut browser = open(60);
    browser.look(NARROW);
    browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })");
    let shown = "[...document.querySelectorAll('.player')].filter(p => p.offsetWidth).length";
    assert!(browser.evaluate(shown).as_u64().unwrap() > 20);
    for elements in [".player", "nav a", "nav button", ".tools input", "td.prose"] {
        assert_eq!(beside_the_screen(&mut browser, elements), json!([]), "{elements}");
    }
    browser.evaluate("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })");
    let menu = "[...document.querySelectorAll('nav a, nav button')]
        .every((link) => { const box = link.getBoundingClientRect(); return box.top >= 0 && box.bottom < 200; })";
    assert_eq!(browser.evaluate(menu), true, "the menu stays in view");
    // A heading that the menu leads to is below the menu, and not behind it.
    browser.evaluate("document.documentElement.style.scrollBehavior = 'auto'");
    browser.evaluate("document.querySelector('nav a[href=\"#data\"]').click()");
    let below = "document.querySelector('#data h2').getBoundingClientRect().top
        >= document.querySelector('nav').getBoundingClientRect().bottom";
    assert_eq!(browser.evaluate(below), true);
}

/// What the list of clips shows: its status, and the ids of the rows that are seen.
fn listed(browser: &mut Browser) -> (String, Vec<String>) {
    let status = browser.evaluate("document.querySelector('.clips [role=status]').textContent");
    let ids = browser.evaluate(
        "[...document.querySelectorAll('.clips tbody tr')].filter(row => row.offsetHeight)
            .map(row => row.cells[1].textContent)",
    );
    (status.as_str().unwrap().to_owned(), serde_json::from_value(ids).unwrap())
}

fn search(browser: &mut Browser, words: &str) {
    browser.evaluate(&format!(
        "(() => {{ const input = document.querySelector('.clips input'); input.value = {words:?};
            input.dispatchEvent(new Event('input')); }})()"
    ));
}

#[test]
fn the_list_of_clips_is_searched_sorted_and_shown_whole_on_demand() {
    let mut browser = open(120);
    let (status, ids) = listed(&mut browser);
    assert_eq!((status.as_str(), ids.len()), ("121 clips", 25));
    search(&mut browser, "numero 119 eero");
    assert_eq!(listed(&mut browser), ("0 of 121 clips".to_owned(), vec![]), "it is of another");
    search(&mut browser, "AINO numero 119");
    assert_eq!(listed(&mut browser), ("1 of 121 clips".to_owned(), vec!["clip00119".to_owned()]));
    search(&mut browser, "clip0001 aino");
    let (_, found) = listed(&mut browser);
    assert!(!found.is_empty() && found.iter().all(|id| id.starts_with("clip0001")), "{found:?}");
    search(&mut browser, "");
    let click = |browser: &mut Browser, heading: &str| {
        browser.evaluate(&format!(
            "[...document.querySelectorAll('.clips th button')].find(b => b.textContent === {heading:?}).click()"
        ))
    };
    click(&mut browser, "Clip");
    let (_, ids) = listed(&mut browser);
    assert_eq!((ids[0].as_str(), ids[24].as_str()), ("clip00000", "clip00024"));
    click(&mut browser, "Clip");
    assert_eq!(listed(&mut browser).1[..2], ["cut", "clip00119"]);
    click(&mut browser, "Seconds");
    let seconds = "[...document.querySelectorAll('.clips tbody tr')]
        .map(row => row.querySelector('[data-label=Seconds]').textContent).filter(Boolean).map(Number)";
    let seconds: Vec<f64> = serde_json::from_value(browser.evaluate(seconds)).unwrap();
    assert!(seconds.len() >= 24 && seconds.is_sorted() && seconds[0] > 0.0, "{seconds:?}");
    browser.evaluate("document.querySelector('.clips .more').click()");
    assert_eq!(listed(&mut browser).1.len(), 121);
    assert_eq!(browser.evaluate("document.querySelector('.clips .more').hidden"), true);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn transcripts_have_room() {
    let mut browser = open(40);
    let widths = "[...document.querySelectorAll('.clips td.prose')].filter(c => c.offsetWidth)
        .map(cell => cell.offsetWidth / cell.closest('.scroll').offsetWidth)";
    let widths: Vec<f64> = serde_json::from_value(browser.evaluate(widths)).unwrap();
    assert!(widths.iter().all(|share| *share > 0.3), "{widths:?}");
}

#[test]
fn a_small_graph_is_not_blown_up() {
    let project = throstle_tests::Project::new(
        "[pipeline]\nname = \"two\"\n[stage.clips]\nuse = \"corpus.table\"\n\
         table = \"data/metadata.csv\"\naudio = \"data/wavs\"\n\
         [stage.checked]\nuse = \"audio.check\"\ninput = \"clips\"\nquarantine = 1\n",
    );
    throstle_tests::write_clips(&project, &["a"]);
    super::page::run(&project);
    report(&project, &[]);
    let mut browser = Browser::open(&project.file("report.html"));
    for look in [WIDE, NARROW] {
        browser.look(look);
        let scale = "(() => { const svg = document.querySelector('.graph svg');
            return svg.getBoundingClientRect().width / Number(svg.getAttribute('width')); })()";
        let scale = browser.evaluate(scale).as_f64().unwrap();
        assert!((scale - 1.0).abs() < 0.01, "{scale} at {} pixels", look.width);
    }
}

#[test]
fn it_is_printed_whole_and_in_light() {
    let mut browser = open(40);
    browser.look(DARK);
    keep("dark.png", &browser.screenshot());
    let printed = browser.print();
    keep("printed.pdf", &printed);
    assert!(printed.starts_with(b"%PDF"));
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    let hidden =
        "[...document.querySelectorAll('tbody tr')].filter(row => !row.offsetHeight).length";
    assert_eq!(browser.evaluate(hidden), 0, "every row is printed");
    browser.look(WIDE);
    keep("light.png", &browser.screenshot());
}
