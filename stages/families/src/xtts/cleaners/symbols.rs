//! Signs as words.

/// In the order of the columns below.
const SIGNS: [char; 7] = ['&', '@', '%', '#', '$', '£', '°'];

#[rustfmt::skip]
const WORDS: [(&str, [&str; 7]); 16] = [
    ("en", ["and", "at", "percent", "hash", "dollar", "pound", "degree"]),
    ("es", ["y", "arroba", "por ciento", "numeral", "dolar", "libra", "grados"]),
    ("fr", ["et", "arobase", "pour cent", "dièse", "dollar", "livre", "degrés"]),
    ("de", ["und", "at", "prozent", "raute", "dollar", "pfund", "grad"]),
    ("it", ["e", "chiocciola", "per cento", "cancelletto", "dollaro", "sterlina", "gradi"]),
    ("pt", ["e", "arroba", "por cento", "cardinal", "dólar", "libra", "graus"]),
    ("pl", ["i", "małpa", "procent", "krzyżyk", "dolar", "funt", "stopnie"]),
    ("tr", ["ve", "at", "yüzde", "diyez", "dolar", "sterlin", "derece"]),
    ("ru", ["и", "собака", "процентов", "номер", "доллар", "фунт", "градус"]),
    ("nl", ["en", "bij", "procent", "hekje", "dollar", "pond", "graden"]),
    ("cs", ["a", "na", "procento", "křížek", "dolar", "libra", "stupně"]),
    ("ar", ["و", "على", "في المئة", "رقم", "دولار", "جنيه", "درجة"]),
    ("zh", ["和", "在", "百分之", "号", "美元", "英镑", "度"]),
    ("hu", ["és", "kukac", "százalék", "kettőskereszt", "dollár", "font", "fok"]),
    ("ko", ["그리고", "에", "퍼센트", "번호", "달러", "파운드", "도"]),
    ("hi", ["और", "ऐट दी रेट", "प्रतिशत", "हैश", "डॉलर", "पाउंड", "डिग्री"]),
];

/// The words of a language; all languages with the original's cleaning have them.
pub fn words(code: &str) -> Option<&'static [&'static str; 7]> {
    WORDS.iter().find(|(own, _)| *own == code).map(|(_, words)| words)
}

pub fn expand(text: &str, code: &str) -> String {
    let Some(words) = words(code) else { return text.to_owned() };
    let mut expanded = String::with_capacity(text.len());
    for character in text.chars() {
        match SIGNS.iter().position(|sign| *sign == character) {
            Some(at) => expanded.extend([" ", words[at], " "]),
            None => expanded.push(character),
        }
    }
    expanded
}
