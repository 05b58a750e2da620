//! Requests of others than the page: hostile ones, and those in the middle of a kill.

use serde_json::json;

use super::server::Server;
use super::speech::spoken;

#[test]
fn hostile_requests_are_refused_and_change_nothing() {
    let project = spoken();
    let server = Server::start(&project);
    let key = server.rows()[0]["key"].as_str().unwrap().to_owned();
    let wish = json!({"action": "drop", "key": key}).to_string();
    let (address, token) = (&server.address, &server.token);
    let (host, bearer) =
        (format!("Host: {address}\r\n"), format!("Authorization: Bearer {token}\r\n"));
    let own = format!("{host}{bearer}");
    let foreign = |origin: &str| format!("{own}Origin: {origin}\r\n");
    let wrong = format!("{host}Authorization: Bearer {}\r\n", "0".repeat(32));
    for (line, headers, body, status) in [
        // Without the token, or with another one.
        ("POST /correct", host.clone(), wish.as_str(), 401),
        ("POST /correct", wrong, &wish, 401),
        ("GET /clips", "Host: evil.example\r\n".to_owned(), "", 401),
        // From pages of other sites, which may know an old token.
        ("POST /correct", foreign("http://evil.example"), &wish, 403),
        ("POST /correct", foreign("null"), &wish, 403),
        ("GET /clips", foreign("https://evil.example"), "", 403),
        // Paths that mean something else.
        ("GET /audio/../../../etc/passwd", own.clone(), "", 400),
        ("GET /audio/%2e%2e%2fpipeline.toml", own.clone(), "", 400),
        ("GET //etc/passwd", own.clone(), "", 400),
        ("GET /audio/pipeline.toml", own.clone(), "", 404),
        ("GET /corrections.csv", own.clone(), "", 404),
        ("GET /words/99-0", own.clone(), "", 404),
        ("POST /clips", own.clone(), "{}", 404),
        ("DELETE /correct", own.clone(), "", 405),
        // Bodies that are no corrections.
        ("POST /correct", own.clone(), "", 400),
        ("POST /correct", own.clone(), "[1, 2", 400),
        ("POST /correct", own.clone(), r#"{"action": "drop"}"#, 400),
        ("POST /correct", own.clone(), r#"{"action": "erase", "key": "0-0"}"#, 400),
        ("POST /correct", own.clone(), r#"{"action": "drop", "key": "0-0", "path": "/etc"}"#, 400),
        ("POST /correct", own.clone(), r#"{"action": "drop", "key": "../0"}"#, 404),
        ("POST /correct", own.clone(), r#"{"action": "split", "key": "0-0", "at": 1e300}"#, 422),
        ("POST /correct", own.clone(), r#"{"action": "split", "key": "0-0", "at": -1}"#, 422),
        ("POST /correct", own.clone(), r#"{"action": "text", "key": "0-0", "text": " \n"}"#, 422),
        ("POST /correct", own.clone(), r#"{"action": "undo"}"#, 422),
        ("POST /correct", own.clone(), &"x".repeat(1 << 20), 413),
    ] {
        assert_eq!(server.raw(line, &headers, body).0, status, "{line} {headers:?} {body:.60}");
    }
    assert_eq!(project.text("corrections.csv"), "segment,action,text,at,with\n");
    // The page itself shows nothing.
    let (status, page) = server.raw("GET /", &host, "");
    let page = String::from_utf8(page).unwrap();
    assert!(status == 200 && page.contains("<canvas") && !page.contains("one/"));
    assert_eq!(server.json("/clips")["corrections"], 0);
}

#[test]
fn a_text_stays_one_cell_of_one_line() {
    let project = spoken();
    let server = Server::start(&project);
    let row = &server.rows()[0];
    let text = "=1+1,\"a\"\r\nb/c,drop,,,\u{7}\n<script>";
    server.correct(&json!({"action": "text", "key": row["key"], "text": text}));
    let table = project.text("corrections.csv");
    assert_eq!(table.lines().count(), 2, "{table}");
    let kept = "=1+1,\"a\" b/c,drop,,, <script>";
    assert_eq!(server.rows()[0]["text"], kept);
    drop(server);
    assert_eq!(Server::start(&project).rows()[0]["text"], kept);
}

#[test]
fn a_kill_loses_no_confirmed_correction() {
    let project = spoken();
    let mut confirmed = 0;
    for round in 0..4 {
        let server = Server::start(&project);
        let rows = server.rows();
        let rest: Vec<_> = rows.iter().filter(|row| row["action"].is_null()).collect();
        // The last ones are on their way when it is killed.
        let (sent, late) = rest[..9].split_at(5 + round);
        for row in sent {
            server.drop_clip(row);
            confirmed += 1;
        }
        std::thread::scope(|scope| {
            for row in late {
                let server = &server;
                scope.spawn(move || server.post(&json!({"action": "drop", "key": row["key"]})));
            }
            std::thread::sleep(std::time::Duration::from_millis(2 * round as u64));
            server.kill_now();
        });
        let table = project.text("corrections.csv");
        assert!(table.ends_with('\n') && table.starts_with("segment,action"), "{table}");
        let lines: Vec<&str> = table.lines().skip(1).collect();
        for row in sent {
            let line = format!("{},drop,,,", row["id"].as_str().unwrap());
            assert!(lines.contains(&line.as_str()), "{line} is lost: {table}");
        }
        assert!(lines.len() >= confirmed, "{} of {confirmed}", lines.len());
        confirmed = lines.len();
        // Nothing half-written is left beside it, only the lock, which nobody holds.
        let known = ["corrections.csv", ".corrections.csv.lock"];
        let mut names = project.names(".");
        names.retain(|name| name.contains("corrections") && !known.contains(&name.as_str()));
        assert_eq!(names, [""; 0]);
    }
}
