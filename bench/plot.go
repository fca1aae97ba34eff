package bench

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scale maps a value onto [0, 1] along an axis.
type scale struct {
	label  string
	lo, hi float64 // of the warped values
	warp   func(float64) float64
	ticks  []tick
}

type tick struct {
	at   float64
	text string
}

func (s scale) positionOf(v float64) float64 {
	if s.hi == s.lo {
		return 0.5
	}
	return (s.warp(v) - s.lo) / (s.hi - s.lo)
}

func noWarp(v float64) float64 { return v }

// linearScale covers lo to hi, with ticks at round values.
func linearScale(label string, lo, hi float64) scale {
	if hi <= lo {
		hi = lo + 1
	}
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/4)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if (hi-lo)/(m*step) <= 5.5 {
			step *= m
			break
		}
	}
	s := scale{label: label, warp: noWarp, lo: lo, hi: hi}
	for i := int(math.Ceil(lo/step - 1e-9)); float64(i)*step <= hi*(1+1e-9); i++ {
		s.ticks = append(s.ticks, tick{float64(i) * step, tickText(float64(i) * step)})
	}
	return s
}

// logScale covers lo to hi, both above 0, with ticks as dense as readers can tell apart.
func logScale(label string, lo, hi float64) scale {
	if hi < lo*1.5 { // nearly a single value: leave room for a tick on each side
		lo, hi = lo/1.5, hi*1.5
	}
	lo, hi = lo/1.05, hi*1.05
	s := scale{label: label, warp: math.Log10, lo: math.Log10(lo), hi: math.Log10(hi)}
	for _, marks := range [][]float64{{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 5, 7},
		{1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9}} {
		s.ticks = s.ticks[:0]
		for e := math.Floor(s.lo); e <= s.hi; e++ {
			for _, m := range marks {
				if v := m * math.Pow(10, e); v >= lo && v <= hi {
					s.ticks = append(s.ticks, tick{v, tickText(v)})
				}
			}
		}
		if len(s.ticks) >= 4 {
			break
		}
	}
	return s
}

// ninesScale gives each further nine of a share the same room, because the tail matters most.
func ninesScale(label string, most float64) scale {
	warp := func(share float64) float64 { return -math.Log10(1 - min(share, 1-1e-9)) }
	s := scale{label: label, warp: warp, lo: 0, hi: max(2, warp(most))}
	for _, share := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		if warp(share) <= s.hi+1e-9 {
			s.ticks = append(s.ticks, tick{share, tickText(100*share) + " %"})
		}
	}
	return s
}

func tickText(v float64) string {
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// series is a line of a plot. class names its colour in the report's style sheet.
type series struct {
	name, class string
	points      [][2]float64
	marks       bool // a dot with a tooltip at every point
}

// Plot geometry, in SVG units. The report scales a plot to its column.
const (
	plotWidth, plotHeight                            = 520.0, 320.0
	marginLeft, marginRight, marginTop, marginBottom = 74.0, 14.0, 12.0, 46.0
)

// linePlot draws the series over both axes.
func linePlot(title string, x, y scale, lines []series) svg {
	w, h := plotWidth-marginLeft-marginRight, plotHeight-marginTop-marginBottom
	px := func(v float64) float64 { return marginLeft + w*x.positionOf(v) }
	py := func(v float64) float64 { return marginTop + h*(1-y.positionOf(v)) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight,
		html.EscapeString(title))
	for _, t := range y.ticks {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %.1fh%.1f"/>`, marginLeft, py(t.at), w)
		fmt.Fprintf(&b, `<text class="tick end" x="%.1f" y="%.1f">%s</text>`, marginLeft-7, py(t.at)+4,
			html.EscapeString(t.text))
	}
	for _, t := range x.ticks {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %.1fv%.1f"/>`, px(t.at), marginTop, h)
		fmt.Fprintf(&b, `<text class="tick mid" x="%.1f" y="%.1f">%s</text>`, px(t.at), marginTop+h+17,
			html.EscapeString(t.text))
	}
	fmt.Fprintf(&b, `<text class="label mid" x="%.1f" y="%.1f">%s</text>`, marginLeft+w/2, plotHeight-8,
		html.EscapeString(x.label))
	fmt.Fprintf(&b, `<text class="label mid" transform="translate(14 %.1f) rotate(-90)">%s</text>`, marginTop+h/2,
		html.EscapeString(y.label))
	for _, s := range lines {
		if len(s.points) > 1 {
			fmt.Fprintf(&b, `<path class="line %s" d="`, s.class)
			for i, p := range s.points {
				fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(i, 1)], px(p[0]), py(p[1]))
			}
			fmt.Fprintf(&b, `"><title>%s</title></path>`, html.EscapeString(s.name))
		}
		if !s.marks {
			continue
		}
		for _, p := range s.points {
			fmt.Fprintf(&b, `<circle class="dot %s" cx="%.1f" cy="%.1f" r="4"><title>%s: %s at %s</title></circle>`,
				s.class, px(p[0]), py(p[1]), html.EscapeString(s.name), formatNumber(p[1]), tickText(p[0]))
		}
	}
	b.WriteString(`</svg>`)
	return svg(b.String())
}

// bar is a row of stacked segments.
type bar struct {
	name     string
	segments []segment
}

type segment struct {
	name, class string
	value       float64
}

// stackPlot draws horizontal bars, each with its sum behind it.
func stackPlot(title, label string, bars []bar) svg {
	const row, right, foot = 34.0, 70.0, 46.0
	sum := 0.0
	for _, bar := range bars {
		sum = max(sum, 20+7.2*float64(utf8.RuneCountInString(bar.name))) // names stand before the bars
	}
	height := float64(len(bars))*row + marginTop + foot
	most := 0.0
	sums := make([]float64, len(bars))
	for i, bar := range bars {
		for _, s := range bar.segments {
			sums[i] += s.value
		}
		most = max(most, sums[i])
	}
	x := linearScale(label, 0, most)
	w := plotWidth - sum - right
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, height, html.EscapeString(title))
	for _, t := range x.ticks {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %.1fV%.1f"/>`, sum+w*x.positionOf(t.at), marginTop, height-foot)
		fmt.Fprintf(&b, `<text class="tick mid" x="%.1f" y="%.1f">%s</text>`, sum+w*x.positionOf(t.at),
			height-foot+17, html.EscapeString(t.text))
	}
	fmt.Fprintf(&b, `<text class="label mid" x="%.1f" y="%.1f">%s</text>`, sum+w/2, height-8, html.EscapeString(label))
	for i, bar := range bars {
		top := marginTop + float64(i)*row + 6
		fmt.Fprintf(&b, `<text class="name end" x="%.1f" y="%.1f">%s</text>`, sum-8, top+row/2-1,
			html.EscapeString(bar.name))
		at := sum
		for _, s := range bar.segments {
			width := w * x.positionOf(s.value)
			fmt.Fprintf(&b, `<rect class="%s" x="%.2f" y="%.1f" width="%.2f" height="%.1f"><title>%s, %s: %s</title></rect>`,
				s.class, at, top, width, row-12, html.EscapeString(bar.name), html.EscapeString(s.name),
				formatNumber(s.value))
			at += width
		}
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%.1f">%s</text>`, at+6, top+row/2-1, formatNumber(sums[i]))
	}
	b.WriteString(`</svg>`)
	return svg(b.String())
}
