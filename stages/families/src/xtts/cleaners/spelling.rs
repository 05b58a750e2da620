//! Rules that spell numbers, one list per language.
//!
//! A rule is `base words`, or `base/divisor words`, and applies from its base up to the next one's.
//! Without a divisor it is the largest power of ten up to the base. In the words `<` is the
//! quotient, `>` the remainder, both spelt; `[words]` is omitted without a remainder,
//! `[words|other]` becomes `other` then, and `[words~other]` becomes `other` for remainders from
//! 100. `(one|few|many)` is inflected after the quotient as in Slavic languages. `'` drops a plural
//! s from the quotient before it, `{a}` selects a word of the list `a` for it, such as the
//! feminine.

/// Numbers from here on stay digits.
const LIMIT: u64 = 1_000_000_000_000;
const DEPTH: usize = 16;

struct Spelling {
    code: &'static str,
    rules: &'static str,
    /// Words for numbers before a noun.
    attributes: &'static str,
    point: &'static str,
}

pub fn has(code: &str) -> bool {
    find(code).is_some()
}

/// None if the language has no rules, or the number is too large.
pub fn cardinal(number: u64, code: &str) -> Option<String> {
    let spelling = find(code)?;
    let spelt = (number < LIMIT).then(|| spelling.spell(spelling.rules, number, 0)).flatten()?;
    // Italian drops one of two vowels before `otto`.
    Some(if code == "it" { spelt.replace("oo", "o") } else { spelt })
}

/// A number by other rules, in which `<` stands for a cardinal.
pub fn by_rules(rules: &'static str, number: u64, code: &str) -> Option<String> {
    find(code)?.spell(rules, number, 0)
}

/// The form of a number before a noun, from the attributes of the language.
pub fn before_noun(number: u64, code: &str) -> Option<String> {
    find(code)?.attribute(number, 0)
}

/// The word for the decimal point.
pub fn point(code: &str) -> Option<&'static str> {
    Some(find(code)?.point)
}

fn find(code: &str) -> Option<&'static Spelling> {
    SPELLINGS.iter().find(|spelling| spelling.code == code)
}

/// The last rule of a list up to a number: its base, divisor and words.
fn rule(rules: &'static str, number: u64) -> Option<(u64, u64, &'static str)> {
    let mut last = None;
    for rule in rules.split(';') {
        let (numbers, words) = rule.trim().split_once(' ')?;
        let (base, divisor) = match numbers.split_once('/') {
            Some((base, divisor)) => (base.parse().ok()?, divisor.parse().ok()?),
            None => {
                let base: u64 = numbers.parse().ok()?;
                (base, 10u64.pow(base.checked_ilog10().unwrap_or(0)))
            }
        };
        if base > number {
            break;
        }
        last = Some((base, divisor, words));
    }
    last
}

/// A number as a rule splits it.
struct Parts {
    /// The rules that spell the remainder.
    rules: &'static str,
    quotient: u64,
    remainder: u64,
}

impl Spelling {
    fn spell(&self, rules: &'static str, number: u64, depth: usize) -> Option<String> {
        let (_, divisor, words) = rule(rules, number).filter(|_| depth < DEPTH)?;
        let parts = Parts { rules, quotient: number / divisor, remainder: number % divisor };
        self.fill(words, &parts, depth)
    }

    fn fill(&self, words: &str, parts: &Parts, depth: usize) -> Option<String> {
        let Parts { rules, quotient, remainder } = *parts;
        let mut spelt = String::new();
        let mut rest = words;
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            match character {
                '<' | '>' => {
                    let (rules, part) = match character {
                        '<' => (self.rules, quotient),
                        _ => (rules, remainder),
                    };
                    let attribute = rest.strip_prefix("{a}");
                    rest = attribute.unwrap_or(rest);
                    spelt.push_str(&match attribute {
                        Some(_) => self.attribute(part, depth + 1)?,
                        None => self.spell(rules, part, depth + 1)?,
                    });
                }
                '\'' => {
                    if spelt.ends_with("ents") || spelt.ends_with("ngts") {
                        spelt.pop();
                    }
                }
                '[' => {
                    let (inner, behind) = rest.split_once(']')?;
                    rest = behind;
                    let chosen = choose(inner, remainder);
                    spelt.push_str(&self.fill(chosen, parts, depth + 1)?);
                }
                '(' => {
                    let (forms, behind) = rest.split_once(')')?;
                    rest = behind;
                    spelt.push_str(plural(forms, quotient)?);
                }
                other => spelt.push(other),
            }
        }
        Some(spelt)
    }

    /// A number before a noun: its last word is from the list of attributes.
    fn attribute(&self, number: u64, depth: usize) -> Option<String> {
        let tail = if number % 100 < 20 { number % 100 } else { number % 10 };
        let exact = self.attributes.split(';').find_map(|entry| {
            let (own, word) = entry.trim().split_once(' ')?;
            (own.parse() == Ok(tail)).then_some(word)
        });
        match exact {
            Some(word) if number == tail => Some(word.to_owned()),
            Some(word) => {
                let spell = |number| self.spell(self.rules, number, depth);
                let (whole, last) = (spell(number)?, spell(tail)?);
                // A word that is joined to the previous one may have changed already.
                Some(match whole.strip_suffix(&last) {
                    Some(start) => format!("{start}{word}"),
                    None => whole,
                })
            }
            None => self.spell(self.rules, number, depth),
        }
    }
}

fn choose(inner: &str, remainder: u64) -> &str {
    match (inner.split_once('|'), inner.split_once('~')) {
        (Some((words, other)), _) => {
            if remainder > 0 {
                words
            } else {
                other
            }
        }
        (None, _) if remainder == 0 => "",
        (None, Some((_, other))) if remainder >= 100 && !is_round(inner, remainder) => other,
        (None, Some((words, _))) => words,
        (None, None) => inner,
    }
}

/// Tests if Portuguese joins a remainder of whole hundreds like a small one: its `other` is a
/// space.
fn is_round(inner: &str, remainder: u64) -> bool {
    inner.ends_with("~ >") && remainder < 1000 && remainder.is_multiple_of(100)
}

/// One, few (2 to 4) or many.
fn plural(forms: &str, quotient: u64) -> Option<&str> {
    let mut forms = forms.split('|');
    let (one, few, many) = (forms.next()?, forms.next()?, forms.next()?);
    let is_teen = (11..15).contains(&(quotient % 100));
    Some(match quotient % 10 {
        1 if !is_teen => one,
        2..=4 if !is_teen => few,
        _ => many,
    })
}

#[rustfmt::skip]
const SPELLINGS: [Spelling; 14] = [
    Spelling { code: "en", attributes: "", point: "point", rules: "\
        0 zero;1 one;2 two;3 three;4 four;5 five;6 six;7 seven;8 eight;9 nine;10 ten;11 eleven;\
        12 twelve;13 thirteen;14 fourteen;15 fifteen;16 sixteen;17 seventeen;18 eighteen;\
        19 nineteen;20 twenty[->];30 thirty[->];40 forty[->];50 fifty[->];60 sixty[->];\
        70 seventy[->];80 eighty[->];90 ninety[->];100 < hundred[ and >];\
        1000 < thousand[ and >~, >];1000000 < million[ and >~, >];\
        1000000000 < billion[ and >~, >]" },
    Spelling { code: "es", attributes: "", point: "punto", rules: "\
        0 cero;1 uno;2 dos;3 tres;4 cuatro;5 cinco;6 seis;7 siete;8 ocho;9 nueve;10 diez;11 once;\
        12 doce;13 trece;14 catorce;15 quince;16 dieciséis;17 diecisiete;18 dieciocho;\
        19 diecinueve;20 veinte;21 veintiuno;22 veintidós;23 veintitrés;24 veinticuatro;\
        25 veinticinco;26 veintiséis;27 veintisiete;28 veintiocho;29 veintinueve;\
        30 treinta[ y >];40 cuarenta[ y >];50 cincuenta[ y >];60 sesenta[ y >];70 setenta[ y >];\
        80 ochenta[ y >];90 noventa[ y >];100 cien[to >|];200 doscientos[ >];\
        300 trescientos[ >];400 cuatrocientos[ >];500 quinientos[ >];600 seiscientos[ >];\
        700 setecientos[ >];800 ochocientos[ >];900 novecientos[ >];1000 mil[ >];\
        2000/1000 < mil[ >];1000000 un millón[ >];2000000/1000000 < millones[ >]" },
    Spelling { code: "fr", attributes: "", point: "virgule", rules: "\
        0 zéro;1 un;2 deux;3 trois;4 quatre;5 cinq;6 six;7 sept;8 huit;9 neuf;10 dix;11 onze;\
        12 douze;13 treize;14 quatorze;15 quinze;16 seize;17 dix->;20 vingt;21 vingt et un;\
        22 vingt->;30 trente;31 trente et un;32 trente->;40 quarante;41 quarante et un;\
        42 quarante->;50 cinquante;51 cinquante et un;52 cinquante->;60 soixante;\
        61 soixante et un;62/20 soixante->;71 soixante et onze;72/20 soixante->;\
        80 quatre-vingts;81/20 quatre-vingt->;100 cent[ >];200/100 < cent[ >|s];1000 mille[ >];\
        2000/1000 <' mille[ >];1000000 un million[ >];2000000/1000000 < millions[ >];\
        1000000000 un milliard[ >];2000000000/1000000000 < milliards[ >]" },
    Spelling { code: "de", attributes: "1 ein", point: "Komma", rules: "\
        0 null;1 eins;2 zwei;3 drei;4 vier;5 fünf;6 sechs;7 sieben;8 acht;9 neun;10 zehn;11 elf;\
        12 zwölf;13 dreizehn;14 vierzehn;15 fünfzehn;16 sechzehn;17 siebzehn;18 achtzehn;\
        19 neunzehn;20 zwanzig;21 >{a}undzwanzig;30 dreißig;31 >{a}unddreißig;40 vierzig;\
        41 >{a}undvierzig;50 fünfzig;51 >{a}undfünfzig;60 sechzig;61 >{a}undsechzig;70 siebzig;\
        71 >{a}undsiebzig;80 achtzig;81 >{a}undachtzig;90 neunzig;91 >{a}undneunzig;\
        100 <{a}hundert[>];1000 eintausend[>];2000/1000 <tausend[>];1000000 eine million[ >];\
        2000000/1000000 < millionen[ >];1000000000 eine milliarde[ >];\
        2000000000/1000000000 < milliarden[ >]" },
    Spelling { code: "it", attributes: "", point: "virgola", rules: "\
        0 zero;1 uno;2 due;3 tre;4 quattro;5 cinque;6 sei;7 sette;8 otto;9 nove;10 dieci;\
        11 undici;12 dodici;13 tredici;14 quattordici;15 quindici;16 sedici;17 diciassette;\
        18 diciotto;19 diciannove;20 venti;21 ventuno;22 ventidue;23 ventitré;24 venti>;\
        28 ventotto;29 venti>;30 trenta;31 trentuno;32 trenta>;33 trentatré;34 trenta>;\
        38 trentotto;39 trenta>;40 quaranta;41 quarantuno;42 quaranta>;43 quarantatré;\
        44 quaranta>;48 quarantotto;49 quaranta>;50 cinquanta;51 cinquantuno;52 cinquanta>;\
        53 cinquantatré;54 cinquanta>;58 cinquantotto;59 cinquanta>;60 sessanta;61 sessantuno;\
        62 sessanta>;63 sessantatré;64 sessanta>;68 sessantotto;69 sessanta>;70 settanta;\
        71 settantuno;72 settanta>;73 settantatré;74 settanta>;78 settantotto;79 settanta>;\
        80 ottanta;81 ottantuno;82 ottanta>;83 ottantatré;84 ottanta>;88 ottantotto;89 ottanta>;\
        90 novanta;91 novantuno;92 novanta>;93 novantatré;94 novanta>;98 novantotto;99 novanta>;\
        100 cento[>];200/100 <cento[>];1000 mille[>];2000/1000 <mila[>];1000000 un milione[ e >];\
        2000000/1000000 < milioni[ e >];1000000000 un miliardo[ e >];\
        2000000000/1000000000 < miliardi[ e >]" },
    Spelling { code: "pt", attributes: "", point: "vírgula", rules: "\
        0 zero;1 um;2 dois;3 três;4 quatro;5 cinco;6 seis;7 sete;8 oito;9 nove;10 dez;11 onze;\
        12 doze;13 treze;14 catorze;15 quinze;16 dezasseis;17 dezassete;18 dezoito;19 dezanove;\
        20 vinte[ e >];30 trinta[ e >];40 quarenta[ e >];50 cinquenta[ e >];60 sessenta[ e >];\
        70 setenta[ e >];80 oitenta[ e >];90 noventa[ e >];100 c[ento e >|em];\
        200 duzentos[ e >];300 trezentos[ e >];400 quatrocentos[ e >];500 quinhentos[ e >];\
        600 seiscentos[ e >];700 setecentos[ e >];800 oitocentos[ e >];900 novecentos[ e >];\
        1000 mil[ e >~ >];2000/1000 < mil[ e >~ >];1000000 um milhão[ e >~ >];\
        2000000/1000000 < milhões[ e >~ >]" },
    Spelling { code: "nl", attributes: "1 een", point: "komma", rules: "\
        0 nul;1 één;2 twee;3 drie;4 vier;5 vijf;6 zes;7 zeven;8 acht;9 negen;10 tien;11 elf;\
        12 twaalf;13 dertien;14 veertien;15 vijftien;16 zestien;17 zeventien;18 achttien;\
        19 negentien;20 twintig;21 eenentwintig;22 tweeëntwintig;23 drieëntwintig;\
        24 >entwintig;30 dertig;31 eenendertig;32 tweeëndertig;33 drieëndertig;34 >endertig;\
        40 veertig;41 eenenveertig;42 tweeënveertig;43 drieënveertig;44 >enveertig;50 vijftig;\
        51 eenenvijftig;52 tweeënvijftig;53 drieënvijftig;54 >envijftig;60 zestig;\
        61 eenenzestig;62 tweeënzestig;63 drieënzestig;64 >enzestig;70 zeventig;\
        71 eenenzeventig;72 tweeënzeventig;73 drieënzeventig;74 >enzeventig;80 tachtig;\
        81 eenentachtig;82 tweeëntachtig;83 drieëntachtig;84 >entachtig;90 negentig;\
        91 eenennegentig;92 tweeënnegentig;93 drieënnegentig;94 >ennegentig;100 honderd[>];\
        200/100 <honderd[>];1000 duizend[>];2000/1000 <duizend[>];1000000 <{a} miljoen[ >];\
        1000000000 <{a} miljard[ >]" },
    Spelling { code: "pl", attributes: "", point: "przecinek", rules: "\
        0 zero;1 jeden;2 dwa;3 trzy;4 cztery;5 pięć;6 sześć;7 siedem;8 osiem;9 dziewięć;\
        10 dziesięć;11 jedenaście;12 dwanaście;13 trzynaście;14 czternaście;15 piętnaście;\
        16 szesnaście;17 siedemnaście;18 osiemnaście;19 dziewiętnaście;20 dwadzieścia[ >];\
        30 trzydzieści[ >];40 czterdzieści[ >];50 pięćdziesiąt[ >];60 sześćdziesiąt[ >];\
        70 siedemdziesiąt[ >];80 osiemdziesiąt[ >];90 dziewięćdziesiąt[ >];100 sto[ >];\
        200 dwieście[ >];300 trzysta[ >];400 czterysta[ >];500 pięćset[ >];600 sześćset[ >];\
        700 siedemset[ >];800 osiemset[ >];900 dziewięćset[ >];1000 tysiąc[ >];\
        2000/1000 < tysi(ęcy|ące|ęcy)[ >];1000000 milion[ >];\
        2000000/1000000 < milion(ów|y|ów)[ >];1000000000 miliard[ >];\
        2000000000/1000000000 < miliard(ów|y|ów)[ >]" },
    Spelling { code: "ru", attributes: "1 одна;2 две", point: "запятая", rules: "\
        0 ноль;1 один;2 два;3 три;4 четыре;5 пять;6 шесть;7 семь;8 восемь;9 девять;10 десять;\
        11 одиннадцать;12 двенадцать;13 тринадцать;14 четырнадцать;15 пятнадцать;16 шестнадцать;\
        17 семнадцать;18 восемнадцать;19 девятнадцать;20 двадцать[ >];30 тридцать[ >];\
        40 сорок[ >];50 пятьдесят[ >];60 шестьдесят[ >];70 семьдесят[ >];80 восемьдесят[ >];\
        90 девяносто[ >];100 сто[ >];200 двести[ >];300 триста[ >];400 четыреста[ >];\
        500 пятьсот[ >];600 шестьсот[ >];700 семьсот[ >];800 восемьсот[ >];900 девятьсот[ >];\
        1000 <{a} тысяч(а|и|)[ >];1000000 < миллион(|а|ов)[ >];\
        1000000000 < миллиард(|а|ов)[ >]" },
    Spelling { code: "cs", attributes: "", point: "celá", rules: "\
        0 nula;1 jedna;2 dva;3 tři;4 čtyři;5 pět;6 šest;7 sedm;8 osm;9 devět;10 deset;\
        11 jedenáct;12 dvanáct;13 třináct;14 čtrnáct;15 patnáct;16 šestnáct;17 sedmnáct;\
        18 osmnáct;19 devatenáct;20 dvacet[ >];30 třicet[ >];40 čtyřicet[ >];50 padesát[ >];\
        60 šedesát[ >];70 sedmdesát[ >];80 osmdesát[ >];90 devadesát[ >];100 sto[ >];\
        200 dvěstě[ >];300 třista[ >];400 čtyřista[ >];500 pětset[ >];600 šestset[ >];\
        700 sedmset[ >];800 osmset[ >];900 devětset[ >];1000 tisíc[ >];\
        2000/1000 < tisíc(|e|)[ >];1000000 milion[ >];2000000/1000000 < milion(ů|y|ů)[ >];\
        1000000000 miliarda[ >];2000000000/1000000000 < miliard(|y|)[ >]" },
    Spelling { code: "tr", attributes: "", point: "virgül", rules: "\
        0 sıfır;1 bir;2 iki;3 üç;4 dört;5 beş;6 altı;7 yedi;8 sekiz;9 dokuz;10 on[>];\
        20 yirmi[>];30 otuz[>];40 kırk[>];50 elli[>];60 altmış[>];70 yetmiş[>];80 seksen[>];\
        90 doksan[>];100 yüz[>];200/100 <yüz[>];1000 bin[>];2000/1000 <bin[>];\
        1000000 <milyon[>];1000000000 <milyar[>]" },
    Spelling { code: "hu", attributes: "2 két", point: "egész", rules: "\
        0 nulla;1 egy;2 kettő;3 három;4 négy;5 öt;6 hat;7 hét;8 nyolc;9 kilenc;10 tíz;11 tizen>;\
        20 húsz;21 huszon>;30 harminc[>];40 negyven[>];50 ötven[>];60 hatvan[>];70 hetven[>];\
        80 nyolcvan[>];90 kilencven[>];100 száz[>];200/100 <{a}száz[>];1000 ezer[>];\
        2000/1000 <{a}ezer[->];1000000 <{a}millió[->];1000000000 <{a}milliárd[->]" },
    Spelling { code: "ko", attributes: "", point: "점", rules: "\
        0 영;1 일;2 이;3 삼;4 사;5 오;6 육;7 칠;8 팔;9 구;10 십[>];20/10 <십[>];100 백[>];\
        200/100 <백[>];1000 천[>];2000/1000 <천[>];10000 만[ >];20000/10000 <만[ >];\
        100000000 <억[ >]" },
    Spelling { code: "ar", attributes: "\
        1 إحدى;2 اثنتان;3 ثلاث;4 أربع;5 خمس;6 ست;7 سبع;8 ثمان;9 تسع;10 عشر;11 إحدى عشرة;\
        12 اثنتا عشرة;13 ثلاث عشرة;14 أربع عشرة;15 خمس عشرة;16 ست عشرة;17 سبع عشرة;\
        18 ثماني عشرة;19 تسع عشرة",
        point: ",", rules: "\
        0 صفر;1 واحد;2 اثنان;3 ثلاثة;4 أربعة;5 خمسة;6 ستة;7 سبعة;8 ثمانية;9 تسعة;10 عشرة;\
        11 أحد عشر;12 اثنا عشر;13 ثلاثة عشر;14 أربعة عشر;15 خمسة عشر;16 ستة عشر;17 سبعة عشر;\
        18 ثمانية عشر;19 تسعة عشر;20 عشرون;21 > و عشرون;30 ثلاثون;31 > و ثلاثون;40 أربعون;\
        41 > و أربعون;50 خمسون;51 > و خمسون;60 ستون;61 > و ستون;70 سبعون;71 > و سبعون;80 ثمانون;\
        81 > و ثمانون;90 تسعون;91 > و تسعون;100 مائة[ و >];200 مئت[ان و >|ا];300 ثلاثمائة[ و >];\
        400 أربعمائة[ و >];500 خمسمائة[ و >];600 ستمائة[ و >];700 سبعمائة[ و >];\
        800 ثمانمائة[ و >];900 تسعمائة[ و >];1000 ألف[ و >];2000 ألف[ان و >|ا];\
        3000/1000 < آلاف[ و >];11000/1000 < ألف[اً و >|];1000000 مليون[ و >];\
        2000000 مليون[ان و >|ا];3000000/1000000 < ملايين[ و >];\
        11000000/1000000 < مليون[اً و >|];1000000000 مليار[ و >];2000000000 مليار[ان و >|ا];\
        3000000000/1000000000 < مليارات[ و >];11000000000/1000000000 < مليار[اً و >|]" },
];
