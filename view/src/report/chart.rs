//! Charts as SVG inside the page. [`INK`] and similar colours are placeholders that the style sheet
//! replaces by colours of the theme.

use std::ops::Range;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Twice the displayed size, since coordinates are integers.
const SIZE: (u32, u32) = (1200, 480);
const LETTERS: u32 = 28;

/// Placeholders for colours of the style sheet, which selects them by these values.
const GRID: RGBColor = RGBColor(1, 1, 1);
const INK: RGBColor = RGBColor(2, 2, 2);
const SERIES: [RGBColor; 8] = [
    RGBColor(3, 3, 3),
    RGBColor(4, 4, 4),
    RGBColor(5, 5, 5),
    RGBColor(6, 6, 6),
    RGBColor(7, 7, 7),
    RGBColor(8, 8, 8),
    RGBColor(9, 9, 9),
    RGBColor(10, 10, 10),
];

/// A line of a chart. Neighbouring points are averaged if there are more than a page can show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// The most points of a line.
const POINTS: usize = 400;
/// The most lines in one chart; as many as there are colours.
pub const LINES: usize = SERIES.len();
/// The fewest and the most bars of a histogram.
const BARS: (f64, f64) = (8.0, 36.0);

impl Curve {
    /// The finite points, in order, thinned by averaging.
    fn thinned(&self) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> =
            self.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let together = points.len().div_ceil(POINTS).max(1);
        let mean = |part: &[(f64, f64)]| {
            let count = part.len() as f64;
            let sums = part.iter().fold((0.0, 0.0), |sums, (x, y)| (sums.0 + x, sums.1 + y));
            (sums.0 / count, sums.1 / count)
        };
        points.chunks(together).map(mean).collect()
    }
}

/// Curves over a common axis; at most [`LINES`] of them are drawn. `None` if there is nothing to
/// show.
pub fn lines(curves: &[Curve]) -> Option<String> {
    let curves: Vec<Vec<(f64, f64)>> = curves.iter().take(LINES).map(Curve::thinned).collect();
    let all = || curves.iter().flatten().copied();
    let (x, y) = (range(all().map(|(x, _)| x))?, range(all().map(|(_, y)| y))?);
    draw(x, padded(&y), |chart| {
        for (points, colour) in curves.iter().zip(SERIES) {
            chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(3)))?;
            if points.len() <= 60 {
                let dot = |point: &(f64, f64)| Circle::new(*point, 5, colour.filled());
                chart.draw_series(points.iter().map(dot))?;
            }
        }
        Ok(())
    })
}

/// A histogram. `None` without finite values.
pub fn histogram(values: &[f64]) -> Option<String> {
    let bars = Bars::of(values)?;
    let highest = bars.counts.iter().copied().max().unwrap_or(0);
    draw(bars.range.clone(), 0.0..highest as f64 * 1.06, |chart| {
        let width = (bars.range.end - bars.range.start) / bars.counts.len() as f64;
        let bar = |(at, count): (usize, &u64)| {
            let left = bars.range.start + at as f64 * width;
            let corners = [(left, 0.0), (left + width, *count as f64)];
            let mut bar = Rectangle::new(corners, SERIES[0].filled());
            bar.set_margin(0, 0, 1, 1);
            bar
        };
        let filled = bars.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        chart.draw_series(filled.map(bar)).map(drop)
    })
}

/// Values counted in bins of equal width.
#[derive(Debug, PartialEq)]
struct Bars {
    range: Range<f64>,
    counts: Vec<u64>,
}

impl Bars {
    fn of(values: &[f64]) -> Option<Bars> {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let mut range = range(finite())?;
        // As many bins as still have some values each.
        let wanted = (2.0 * (finite().count() as f64).sqrt()).round().clamp(BARS.0, BARS.1);
        let mut bars = wanted;
        if finite().all(|value| value.fract() == 0.0) && range.end < 1e9 {
            // Otherwise integers would fall into some bins more often than into others.
            let width = ((range.end - range.start + 1.0) / wanted).ceil();
            let least = range.start.ceil();
            bars = ((range.end.floor() - least + 1.0) / width).ceil();
            range = least - 0.5..least - 0.5 + bars * width;
        }
        let mut counts = vec![0; bars as usize];
        for value in finite() {
            let at = (value - range.start) / (range.end - range.start) * bars;
            counts[(at as usize).min(bars as usize - 1)] += 1;
        }
        Some(Bars { range, counts })
    }
}

/// From the smallest to the largest value. Equal values get a range of their own size around them.
fn range(values: impl Iterator<Item = f64> + Clone) -> Option<Range<f64>> {
    /// Values below this have no size.
    const MIN_MAGNITUDE: f64 = 1e-30;
    let least = values.clone().reduce(f64::min)?;
    let most = values.reduce(f64::max)?;
    let size = if least.abs() < MIN_MAGNITUDE { 1.0 } else { least.abs() };
    let around = if least == most { size * 0.05 } else { 0.0 };
    let range = least - around..most + around;
    // Beyond this, the axis cannot be divided.
    ((range.end - range.start).is_normal() && range.end.abs() < 1e15).then_some(range)
}

/// Adds a margin. Nearly constant values get a wide range, since labels could not tell them apart.
fn padded(range: &Range<f64>) -> Range<f64> {
    let (width, largest) = (range.end - range.start, range.start.abs().max(range.end.abs()));
    let padding = (width * 0.04).max((largest * 0.1 - width) / 2.0);
    range.start - padding..range.end + padding
}

type Plane<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;
type Drawn<'b> = Result<(), DrawingAreaErrorKind<<SVGBackend<'b> as DrawingBackend>::ErrorType>>;

/// A chart with its axes; `None` if the library cannot draw it.
fn draw(
    x: Range<f64>,
    y: Range<f64>,
    series: impl for<'a, 'b> FnOnce(&mut Plane<'a, 'b>) -> Drawn<'b>,
) -> Option<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .margin_right(40)
        .x_label_area_size(44)
        .y_label_area_size(104)
        .build_cartesian_2d(x.clone(), y.clone())
        .ok()?;
    let style = ("sans-serif", LETTERS).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.stroke_width(2))
        .axis_style(GRID.stroke_width(2))
        .x_labels(8)
        .y_labels(5)
        .x_label_formatter(&|value| shown(*value, &x))
        .y_label_formatter(&|value| shown(*value, &y))
        .x_label_style(style.clone().pos(Pos::new(HPos::Center, VPos::Top)))
        .y_label_style(style)
        .draw()
        .ok()?;
    series(&mut chart).ok()?;
    drop(chart);
    area.present().ok()?;
    drop(area);
    Some(svg)
}

/// A label with enough digits to differ from the next one.
fn shown(value: f64, axis: &Range<f64>) -> String {
    let step = (axis.end - axis.start) / 8.0;
    let largest = axis.start.abs().max(axis.end.abs());
    let value = if value.abs() < step * 1e-6 { 0.0 } else { value };
    if value != 0.0 && !(2e-4..1e6).contains(&largest) {
        let digits = (value.abs().log10().floor() - step.log10().floor()).clamp(1.0, 6.0) as usize;
        return format!("{value:.digits$e}");
    }
    let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn curve(points: impl IntoIterator<Item = (f64, f64)>) -> Curve {
        Curve { name: "loss".into(), points: points.into_iter().collect() }
    }

    #[test]
    fn many_points_are_averaged_and_broken_ones_left_out() {
        let many = curve((0..100_000).map(|step| (f64::from(step), 2.0)));
        let thinned = many.thinned();
        assert!(thinned.len() <= POINTS && thinned.iter().all(|(_, y)| *y == 2.0));
        let broken = curve([(1.0, f64::NAN), (3.0, 5.0), (2.0, 4.0), (4.0, f64::INFINITY)]);
        assert_eq!(broken.thinned(), [(2.0, 4.0), (3.0, 5.0)]);
    }

    #[test]
    fn a_chart_has_no_size_that_grows_with_the_data() {
        let few = histogram(&[1.0, 2.0, 3.0]).unwrap();
        let many: Vec<f64> = (0..50_000).map(|at| f64::from(at % 977)).collect();
        assert!(histogram(&many).unwrap().len() < few.len() + 40 * 130);
        let long = curve((0..50_000).map(|step| (f64::from(step), f64::from(step % 7))));
        assert!(lines(&[long]).unwrap().len() < 20_000);
    }

    #[test]
    fn labels_tell_values_apart_that_hardly_move() {
        let axis = padded(&(0.000_999_8..0.001));
        let labels = [axis.start, axis.end].map(|value| shown(value, &axis));
        assert_ne!(labels[0], labels[1]);
        assert_eq!(padded(&(1.0..2.0)), 0.96..2.04);
    }

    #[test]
    fn a_constant_stands_in_the_middle_of_a_range_of_its_size() {
        for constant in [2e-5, 1.0, -300.0, 0.0] {
            let axis = padded(&range([constant; 3].into_iter()).unwrap());
            let size = if constant == 0.0 { 1.0 } else { f64::abs(constant) };
            assert!((axis.end - axis.start) < size * 0.2, "{constant}: {axis:?}");
            assert!(((axis.end + axis.start) / 2.0 - constant).abs() < size * 1e-6, "{constant}");
            let labels = [axis.start, constant, axis.end].map(|value| shown(value, &axis));
            assert!(labels[0] != labels[1] && labels[1] != labels[2], "{labels:?}");
        }
    }

    #[test]
    fn every_value_is_counted_once_the_greatest_in_the_last_part() {
        let bars = Bars::of(&[0.0, 0.5, 36.0, 36.0, f64::NAN]).unwrap();
        assert_eq!((bars.range.clone(), bars.counts.len()), (0.0..36.0, 8));
        assert_eq!((bars.counts[0], bars.counts[7], bars.counts.iter().sum::<u64>()), (2, 2, 4));
        let many: Vec<f64> = (0..10_000).map(|at| f64::from(at) / 3.0).collect();
        assert_eq!(Bars::of(&many).unwrap().counts.len(), 36);
    }

    #[test]
    fn whole_numbers_are_counted_in_bars_of_whole_width() {
        let bars = Bars::of(&[1.0, 2.0, 2.0, 4.0]).unwrap();
        assert_eq!(bars, Bars { range: 0.5..4.5, counts: vec![1, 2, 0, 1] });
        let even: Vec<f64> = (0..100).map(f64::from).collect();
        let counts = Bars::of(&even).unwrap().counts;
        assert_eq!((counts.len(), counts.iter().all(|count| *count == 5)), (20, true));
    }

    #[test]
    fn what_cannot_be_drawn_is_no_chart() {
        assert_eq!(lines(&[]), None);
        assert_eq!(lines(&[curve([(1.0, f64::NAN)])]), None);
        assert_eq!(histogram(&[]), None);
        assert_eq!(histogram(&[f64::MIN, f64::MAX]), None);
        assert!(histogram(&[3.0]).is_some() && lines(&[curve([(1.0, 1e-300)])]).is_some());
    }

    #[test]
    fn only_colours_that_the_style_sheet_knows_are_drawn() {
        let many: Vec<Curve> =
            (0..LINES as u32).map(|at| curve([(0.0, f64::from(at)), (1.0, 2.0)])).collect();
        let svg = lines(&many).unwrap();
        assert!(svg.contains("#0A0A0A"), "all colours are used");
        let svg = svg + &histogram(&[1.0, 2.0]).unwrap();
        let style = include_str!("page.css");
        for colour in svg.split('#').skip(1).map(|rest| &rest[..6]) {
            let colour = colour.to_lowercase();
            assert!(style.contains(&format!("\"#{colour}\" i")), "{colour} has no colour");
        }
    }

    #[test]
    fn labels_have_the_digits_that_tell_them_apart() {
        assert_eq!(shown(2.5, &(0.0..4.0)), "2.5");
        assert_eq!(shown(1_000.0, &(0.0..2_000.0)), "1000");
        assert_eq!([0.0005, 0.001].map(|value| shown(value, &(0.0..0.002))), ["0.0005", "0.001"]);
        assert_eq!(shown(4e-5, &(0.0..1e-4)), "4.0e-5");
        assert_eq!(shown(-1e-17, &(-0.4..0.4)), "0");
        assert_eq!(shown(3e7, &(0.0..8e7)), "3.0e7");
    }
}
