//! Synthesised sentences.

use super::*;

#[test]
fn a_sentence_is_spoken_the_same_whatever_else_is_spoken() {
    let mut bench = Bench::default();
    let (base, codec) = (base(&mut bench), codec(3, 24, &mut bench));
    let both = speak(&base, &codec, &["Yksi.", "Kaksi."], &mut bench).unwrap();
    let alone = speak(&base, &codec, &["Kaksi."], &mut bench).unwrap();
    assert_eq!(both[1], alone[0]);
    assert_ne!(both[0].blob("tokens"), both[1].blob("tokens"));
    for spoken in &both {
        let frames = spoken.number("frames").unwrap();
        assert_eq!(spoken.number("seconds").unwrap(), frames * 256.0 / 16_000.0);
        let stop = spoken.text("stop").unwrap();
        assert!(if frames < 12.0 { stop == "end" } else { stop == "limit" }, "{frames} {stop}");
    }
}

#[test]
fn sentences_of_one_batch_are_those_that_are_spoken_alone() {
    let mut bench = Bench::default();
    let (base, codec) = (base(&mut bench), codec(3, 24, &mut bench));
    let texts = ["Yksi.", "", "Kaksi kolme nelj\u{e4}.", "Viisi."];
    let mut said =
        |texts: &[&str]| said(&[("model", &base), ("codec", &codec)], &items_of(texts), &mut bench);
    let together = said(&texts).unwrap();
    assert_eq!(together[1].as_ref().unwrap_err().code, "empty");
    for (text, together) in texts.iter().zip(&together) {
        assert_eq!(&said(&[text]).unwrap()[0], together);
    }
}
