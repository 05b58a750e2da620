//! Chinese cardinals: groups of four digits, with one 零 for each run of zeros before other digits.

const DIGITS: [char; 10] = ['零', '一', '二', '三', '四', '五', '六', '七', '八', '九'];
const PLACES: [(u64, &str); 4] = [(1000, "千"), (100, "百"), (10, "十"), (1, "")];
const GROUPS: [(u64, &str); 3] = [(100_000_000, "亿"), (10_000, "万"), (1, "")];

/// A number below 10^12.
pub fn cardinal(number: u64) -> String {
    if number == 0 {
        return DIGITS[0].to_string();
    }
    let mut spelt = String::new();
    let mut is_behind_zero = false;
    for (group, name) in GROUPS {
        let own = number / group % 10_000;
        for (place, sign) in PLACES {
            let digit = own / place % 10;
            if digit == 0 {
                is_behind_zero = !spelt.is_empty();
                continue;
            }
            if is_behind_zero {
                spelt.push(DIGITS[0]);
                is_behind_zero = false;
            }
            // 10 to 19 begin with the ten itself.
            if !(spelt.is_empty() && digit == 1 && place == 10) {
                spelt.extend(DIGITS.get(digit as usize));
            }
            spelt.push_str(sign);
        }
        if own > 0 {
            spelt.push_str(name);
            is_behind_zero = false;
        }
    }
    spelt
}
