package chat

import (
	"fmt"
	"strings"
	"time"
)

// layouts maps the directives of C's strftime to layouts of package time.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'D': "01/02/06",
	'e': "_2", 'F': "2006-01-02", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'P': "pm", 'r': "03:04:05 PM",
	'R': "15:04", 'S': "05", 'T': "15:04:05", 'x': "01/02/06", 'X': "15:04:05", 'y': "06", 'Y': "2006",
}

// whole are directives that stand for several others, to which no flag for zeros applies.
const whole = "cDFrRTxX"

// strftime formats a time as Python does in the C locale for a time without a zone, so %z
// and %Z are empty. Of the flags of GNU's C library, %-d and its like drop leading zeros
// and spaces, %_d writes spaces in their place, %0e zeros, and %^a capitals. An unknown
// directive is copied, as is %f with a flag: only Python knows %f, and only without flags.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		start := i
		i++
		flag := byte(0)
		if strings.IndexByte("-_0^", format[i]) >= 0 && i+1 < len(format) {
			flag = format[i]
			i++
		}
		s, ok := directive(t, format[i])
		switch {
		case ok && (flag == 0 || format[i] != 'f'):
			s = flagged(s, format[i], flag)
		case flag == '^' && format[i] >= 'a' && format[i] <= 'z':
			s = format[start:i] + string(format[i]-'a'+'A')
		default: // one byte, as the others of its character follow
			s = format[start : i+1]
		}
		b.WriteString(s)
	}
	return b.String()
}

// flagged changes the text of a directive as its flag says.
func flagged(s string, directive, flag byte) string {
	switch {
	case flag == '^' && directive == 'P': // small in any case
		return s
	case flag == '^':
		return strings.ToUpper(s)
	case strings.IndexByte(whole, directive) >= 0:
		return s
	}
	digits := strings.TrimLeft(s, "0 ")
	if digits == "" && s != "" {
		digits = "0"
	}
	switch padding := len(s) - len(digits); flag {
	case '-':
		return digits
	case '_':
		return strings.Repeat(" ", padding) + digits
	case '0':
		return strings.Repeat("0", padding) + digits
	}
	return s
}

func directive(t time.Time, c byte) (string, bool) {
	year, week := t.ISOWeek()
	switch c {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 's':
		return fmt.Sprint(t.Unix()), true
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1), true
	case 'w':
		return fmt.Sprint(int(t.Weekday())), true
	case 'U': // week of the year, from its first Sunday
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), true
	case 'W': // from its first Monday
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7), true
	case 'V': // by ISO 8601
		return fmt.Sprintf("%02d", week), true
	case 'G': // the year of that week
		return fmt.Sprint(year), true
	case 'g':
		return fmt.Sprintf("%02d", year%100), true
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), true
	case 'k':
		return fmt.Sprintf("%2d", t.Hour()), true
	case 'l':
		return fmt.Sprintf("%2d", (t.Hour()+11)%12+1), true
	case 'z', 'Z':
		return "", true
	}
	layout, ok := layouts[c]
	return t.Format(layout), ok
}
