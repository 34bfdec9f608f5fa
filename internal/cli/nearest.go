// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mostLetters is the largest number of wrong letters in a word for which cobra suggests names.
const mostLetters = 2

// near returns the names that a user may have meant. The measure is cobra's for commands, which it has for them
// alone: at most mostLetters letters differ, or the name begins with the word.
func near(word string, names []string) []string {
	group := &cobra.Command{SuggestionsMinimumDistance: mostLetters}
	for _, name := range names {
		group.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return group.SuggestionsFor(word)
}

// meant adds a hint with the words that a user may have meant, each between two marks, if there are any.
func meant(err error, mark string, like []string) error {
	if len(like) == 0 {
		return err
	}
	return WithHint(err, "did you mean %s?", mark+strings.Join(like, mark+" or "+mark)+mark)
}

// wrongFlag returns the usage error for a wrong flag, with the flags that resemble it, or whose values are called like
// it: --build for "--windows build". The flag of a command that does not exist is not wrong: the error names the
// command.
func wrongFlag(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknown(cmd, words[0])
	}
	usage := Usagef("%w", err)
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usage
	}
	var flags []string
	byValue := map[string][]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, _ := pflag.UnquoteUsage(f)
		flags = append(flags, "--"+f.Name)
		byValue["--"+value] = append(byValue["--"+value], "--"+f.Name)
	})
	// -wait is read as the letters -w, -a, -i and -t.
	word, _, _ := strings.Cut("--"+cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName()), "=")
	like := near(word, flags)
	if len(like) == 0 {
		for _, value := range near(word, slices.Sorted(maps.Keys(byValue))) {
			like = append(like, byValue[value]...)
		}
	}
	return meant(usage, "", like)
}

// oneOf is the value of a flag that takes one of several words.
type oneOf struct {
	to    *string
	words []string
}

func (o oneOf) String() string { return *o.to }

// Set implements pflag.Value. A flag may be set to its default.
func (o oneOf) Set(word string) error {
	if !slices.Contains(o.words, word) && word != *o.to {
		return meant(fmt.Errorf("want %s", alternatives(o.words)), `"`, near(word, o.words))
	}
	*o.to = word
	return nil
}

// Type implements pflag.Value. Help shows defaults of strings in quotes.
func (o oneOf) Type() string { return "string" }

// OneOf adds a flag that takes one of several words. The shell completes them.
func OneOf(cmd *cobra.Command, to *string, name, short, usage string, words ...string) {
	cmd.Flags().VarP(oneOf{to: to, words: words}, name, short, usage)
	// The only errors are a missing flag and a second function for one flag.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Output adds the flag --output, which chooses one of the formats; the first is the default.
func Output(cmd *cobra.Command, to *string, formats ...string) {
	*to = formats[0]
	OneOf(cmd, to, "output", "o", "`format`: "+alternatives(formats), formats...)
}

// alternatives joins words as people write them: a, b or c.
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
