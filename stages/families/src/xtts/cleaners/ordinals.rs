//! Ordinals as words: a number with a mark behind it, such as `1st`, `2ª` or `3.`.
//!
//! A language either changes the end of the cardinal or has rules of its own. Czech and Hindi have
//! marks in the original, too, and no words: it fails on them.

use super::spelling;

struct Ordinals {
    code: &'static str,
    /// In the order in which they are tried. `!` stands for white space or the end of the text,
    /// which is no part of the mark.
    marks: &'static [&'static str],
    /// Numbers from here on are read as cardinals.
    limit: u64,
    way: Way,
}

enum Way {
    /// Rules as in [`spelling`]; `<` is a cardinal.
    Rules(&'static str),
    /// Numbers with a word of their own, and what ends of cardinals become: the first that fits.
    Endings { exact: &'static str, endings: &'static str },
}

/// The length of the mark that a text behind a number begins with, and the ordinal.
pub fn ordinal(number: u64, text: &str, code: &str) -> Option<(usize, String)> {
    let own = ORDINALS.iter().find(|own| own.code == code)?;
    let length = own.marks.iter().find_map(|mark| mark_length(text, mark))?;
    (number < own.limit).then(|| Some((length, own.spell(number)?))).flatten()
}

fn mark_length(text: &str, mark: &str) -> Option<usize> {
    let (mark, is_last) = match mark.strip_suffix('!') {
        Some(mark) => (mark, true),
        None => (mark, false),
    };
    let rest = text.strip_prefix(mark)?;
    let ends = rest.chars().next().is_none_or(char::is_whitespace);
    (!is_last || ends).then_some(mark.len())
}

impl Ordinals {
    fn spell(&self, number: u64) -> Option<String> {
        match self.way {
            Way::Rules(rules) => spelling::by_rules(rules, number, self.code),
            Way::Endings { exact, endings } => {
                let exact = pairs(exact).find(|(own, _)| own.parse() == Ok(number));
                if let Some((_, word)) = exact {
                    return Some(word.to_owned());
                }
                let cardinal = spelling::cardinal(number, self.code)?;
                pairs(endings).find_map(|(end, other)| {
                    Some(format!("{}{other}", cardinal.strip_suffix(end)?))
                })
            }
        }
    }
}

fn pairs(list: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    list.split(';').filter_map(|pair| pair.split_once(' '))
}

#[rustfmt::skip]
const ORDINALS: [Ordinals; 13] = [
    Ordinals { code: "en", marks: &["st", "nd", "rd", "th"],
        limit: 1_000_000, way: Way::Endings { exact: "\
        0 zeroth", endings: "\
        one first;two second;three third;five fifth;eight eighth;nine ninth;twelve twelfth;\
        y ieth; th" } },
    Ordinals { code: "es", marks: &["º", "ª", "er", "o", "a", "os", "as"],
        limit: 1_000_000, way: Way::Rules("\
        1 primero;2 segundo;3 tercero;4 cuarto;5 quinto;6 sexto;7 séptimo;8 octavo;9 noveno;\
        10 décimo;11 décimoprimero;12 décimosegundo;13 décimo >;20 vigésimo[ >];\
        30 trigésimo[ >];40 quadragésimo[ >];50 quincuagésimo[ >];60 sexagésimo[ >];\
        70 septuagésimo[ >];80 octogésimo[ >];90 nonagésimo[ >];100 centésimo[ >];\
        200 ducentésimo[ >];300 tricentésimo[ >];400 cuadrigentésimo[ >];500 quingentésimo[ >];\
        600 sexcentésimo[ >];700 septigentésimo[ >];800 octigentésimo[ >];\
        900 noningentésimo[ >];1000 milésimo[ >];2000/1000 <milésimo[ >]") },
    Ordinals { code: "fr", marks: &["º", "ª", "er", "re", "e", "ème"],
        limit: 1_000_000, way: Way::Endings { exact: "\
        1 premier", endings: "\
        cinq cinquième;neuf neuvième;e ième; ième" } },
    Ordinals { code: "de", marks: &["st", "nd", "rd", "th", "º", "ª", ".!"],
        limit: 1_000_000, way: Way::Endings { exact: "\
        100 hundertste;1000 tausendste", endings: "\
        eins erste;drei dritte;sieben siebte;acht achte;null nullte;zwei zweite;vier vierte;\
        fünf fünfte;sechs sechste;neun neunte;zehn zehnte;elf elfte;zwölf zwölfte; ste" } },
    Ordinals { code: "it", marks: &["º", "°", "ª", "o", "a", "i", "e"],
        limit: 1_000_000, way: Way::Endings { exact: "\
        0 zero;1 primo;2 secondo;3 terzo;4 quarto;5 quinto;6 sesto;7 settimo;8 ottavo;9 nono;\
        10 decimo", endings: "\
        tré treesimo;tre treesimo;sei seiesimo;mila millesimo;a esimo;e esimo;i esimo;o esimo" } },
    Ordinals { code: "pt", marks: &["º", "ª", "o", "a", "os", "as"],
        limit: 10_000, way: Way::Rules("\
        1 primeiro;2 segundo;3 terceiro;4 quarto;5 quinto;6 sexto;7 sétimo;8 oitavo;9 nono;\
        10 décimo[ >];20 vigésimo[ >];30 trigésimo[ >];40 quadragésimo[ >];50 quinquagésimo[ >];\
        60 sexagésimo[ >];70 septuagésimo[ >];80 octogésimo[ >];90 nonagésimo[ >];\
        100 centésimo[ >];200 ducentésimo[ >];300 tricentésimo[ >];400 quadrigentésimo[ >];\
        500 quingentésimo[ >];600 seiscentésimo[ >];700 septigentésimo[ >];\
        800 octigentésimo[ >];900 nongentésimo[ >];1000 milésimo[ >];2000 segundo milésimo[ >];\
        3000 terceiro milésimo[ >];4000 quarto milésimo[ >];5000 quinto milésimo[ >];\
        6000 sexto milésimo[ >];7000 sétimo milésimo[ >];8000 oitavo milésimo[ >];\
        9000 nono milésimo[ >]") },
    Ordinals { code: "pl", marks: &["º", "ª", "st", "nd", "rd", "th"],
        limit: 10_000, way: Way::Rules("\
        1 pierwszy;2 drugi;3 trzeci;4 czwarty;5 piąty;6 szósty;7 siódmy;8 ósmy;9 dziewiąty;\
        10 dziesiąty;11 jedenasty;12 dwunasty;13 trzynasty;14 czternasty;15 piętnasty;\
        16 szesnasty;17 siedemnasty;18 osiemnasty;19 dziewiętnasty;20 dwudziesty[ >];\
        30 trzydziesty[ >];40 czterdziesty[ >];50 pięćdziesiąty[ >];60 sześćdziesiąty[ >];\
        70 siedemdziesiąty[ >];80 osiemdziesiąty[ >];90 dziewięćdziesiąty[ >];100 s[to >|etny];\
        200 dw[ieście >|usetny];300 trzys[ta >|etny];400 czterys[ta >|etny];\
        500 pięćs[et >|etny];600 sześćs[et >|etny];700 siedems[et >|etny];800 osiems[et >|etny];\
        900 dziewięćs[et >|etny];1000 tysi[ąc >|ęczny];2000 dw[a tysiące >|utysięczny];\
        3000 trzy[ tysiące >|tysięczny];4000 czter[y tysiące >|otysięczny];\
        5000 [pięć tysięcy >|pięciotysięczny];6000 [sześć tysięcy >|sześciotysięczny];\
        7000 [siedem tysięcy >|siedmiotysięczny];8000 [osiem tysięcy >|ośmiotysięczny];\
        9000 [dziewięć tysięcy >|dziewięciotysięczny]") },
    Ordinals { code: "ar", marks: &["ون", "ين", "ث", "ر", "ى"],
        limit: 1_000_000, way: Way::Rules("\
        1 اول;2 ثاني;3 ثالث;4 رابع;5 خامس;6 سادس;7 سابع;8 ثامن;9 تاسع;10 عاشر;11 حادي عشر;\
        12 ثاني عشر;13 ثالث عشر;14 رابع عشر;15 خامس عشر;16 سادس عشر;17 سابع عشر;18 ثامن عشر;\
        19 تاسع عشر;20 عشرون;21 >{a} و عشرون;30 ثلاثون;31 >{a} و ثلاثون;40 أربعون;\
        41 >{a} و أربعون;50 خمسون;51 >{a} و خمسون;60 ستون;61 >{a} و ستون;70 سبعون;\
        71 >{a} و سبعون;80 ثمانون;81 >{a} و ثمانون;90 تسعون;91 >{a} و تسعون;100/1 <") },
    Ordinals { code: "ru", marks: &["-й", "-я", "-е", "-ое", "-ье", "-го"],
        limit: 10_000, way: Way::Rules("\
        0 нулевой;1 первый;2 второй;3 третий;4 четвёртый;5 пятый;6 шестой;7 седьмой;8 восьмой;\
        9 девятый;10 десятый;11 одиннадцатый;12 двенадцатый;13 тринадцатый;14 четырнадцатый;\
        15 пятнадцатый;16 шестнадцатый;17 семнадцатый;18 восемнадцатый;19 девятнадцатый;\
        20 двадцат[ь >|ый];30 тридцат[ь >|ый];40 сорок[ >|овой];50 пят[ьдесят >|идесятый];\
        60 шест[ьдесят >|идесятый];70 сем[ьдесят >|идесятый];80 вос[емьдесят >|ьмидесятый];\
        90 девяност[о >|ый];100 с[то >|отый];200 дв[ести >|ухсотый];300 тр[иста >|ёхсотый];\
        400 четыр[еста >|ёхсотый];500 пят[ьсот >|исотый];600 шест[ьсот >|исотый];\
        700 сем[ьсот >|исотый];800 вос[емьсот >|ьмисотый];900 девят[ьсот >|исотый];\
        1000 тысяч[а >|ный];2000 дв[е тысячи >|ухтысячный];3000 тр[и тысячи >|ёхтысячный];\
        4000 четыр[е тысячи >|ёхтысячный];5000 пят[ь тысяч >|итысячный];\
        6000 шест[ь тысяч >|итысячный];7000 сем[ь тысяч >|итысячный];\
        8000 вос[емь тысяч >|ьмитысячный];9000 девят[ь тысяч >|итысячный]") },
    Ordinals { code: "nl", marks: &["de", "ste", "e"],
        limit: 1_000_000, way: Way::Endings { exact: "\
        0 nulde", endings: "\
        één eerste;een eerste;drie derde;acht achtste;twee tweede;vier vierde;vijf vijfde;\
        zes zesde;zeven zevende;negen negende;tien tiende;elf elfde;twaalf twaalfde; ste" } },
    Ordinals { code: "tr", marks: &[".", "inci", "nci", "uncu", "üncü"],
        limit: 1_000_000, way: Way::Endings { exact: "\
        0 sıfırıncı", endings: "\
        dört dördüncü;bir birinci;iki ikinci;üç üçüncü;beş beşinci;altı altıncı;yedi yedinci;\
        sekiz sekizinci;dokuz dokuzuncu;on onuncu;yirmi yirminci;otuz otuzuncu;kırk kırkıncı;\
        elli ellinci;altmış altmışıncı;yetmiş yetmişinci;seksen sekseninci;doksan doksanıncı;\
        yüz yüzüncü;bin bininci" } },
    Ordinals { code: "hu", marks: &[".", "adik", "edik", "odik", "ödik", "ödike", "ik"],
        limit: 1_000_000, way: Way::Endings { exact: "\
        0 nulladik;1 első;2 második", endings: "\
        kettő kettedik;egy egyedik;három harmadik;négy negyedik;öt ötödik;hat hatodik;\
        hét hetedik;nyolc nyolcadik;kilenc kilencedik;tíz tizedik;húsz huszadik;\
        harminc harmincadik;negyven negyvenedik;ötven ötvenedik;hatvan hatvanadik;\
        hetven hetvenedik;nyolcvan nyolcvanadik;kilencven kilencvenedik;száz századik;\
        ezer ezredik" } },
    Ordinals { code: "ko", marks: &["번째", "번", "차", "째"],
        limit: 100, way: Way::Rules("\
        1 첫 번째;2 두 번째;3 세 번째;4 네 번째;5 다섯 번째;6 여섯 번째;7 일곱 번째;8 여덟 번째;9 아홉 번째;10 열 번째;11 열한 번째;\
        12 열>;20 스물 번째;21 스물한 번째;22 스물>;30 서른 번째;31 서른한 번째;32 서른>;40 마흔 번째;41 마흔한 번째;42 마흔>;\
        50 쉰 번째;51 쉰한 번째;52 쉰>;60 예순 번째;61 예순한 번째;62 예순>;70 일흔 번째;71 일흔한 번째;72 일흔>;80 여든 번째;\
        81 여든한 번째;82 여든>;90 아흔 번째;91 아흔한 번째;92 아흔>") },
];
