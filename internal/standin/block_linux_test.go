// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package standin_test

// blockBatch redirects blocks in parentheses.
var blockBatch = []string{
	"(echo X)>f", "type f", "(echo a & echo b) > f", "type f", "(echo c)>>f", "type f",
	"(echo hidden)>nul & echo shown", "(echo to the file)>f&echo to the screen", "type f",
	// Over several lines, with variables, and with a block inside.
	"set NAME=f2", "(", "  echo first", "  (echo second)>f3", "  if 1==1 (echo third) else (echo no)",
	"  for %%i in (1 2) do echo %%i", ") > %NAME%", "type f2", "type f3",
	// The redirection belongs to the branch, and to each round.
	"if 1==2 (echo yes) else (echo no)>f", "type f", "if 1==1 (echo yes)>f else (echo no)", "type f",
	"for %%i in (1 2) do (", "  echo %%i", ")>f", "type f", "for %%i in (1 2) do (echo %%i)>>f", "type f",
	"(for %%i in (3 4) do @echo %%i)>f", "type f", "for %%i in (5 6) do (echo %%i)>%%i.txt", "type 5.txt 6.txt 2>nul",
	// Errors, input, pipes.
	"(type nofile)2>nul", "(type nofile & echo out)>f 2>&1", "type f", `(echo X)>nodir\x`, "echo input>in",
	"(set /p LINE=&call echo %%LINE%%)<in", "(set /p LINE=)<in", "echo %LINE%",
	"(echo one & echo two)|findstr tw",
	"(", "echo three", "echo four", ")|find \"our\"", "(echo b & echo a & echo c)|findstr [ab]|findstr a",
	"(echo 1 & echo 2)|(findstr 1 & echo end)>f", "type f",
	// What leaves a block ends its redirection.
	"(echo before & goto out)>f", ":out", "echo after", "type f", "call :sub", "type f",
	`>inner.cmd echo @(echo inner ^& exit /b)^>f`, "call inner.cmd", "type f",
	// Parentheses in a text.
	"echo (a) >f", "type f", "echo x ^(y^)>f", "type f", "rem (echo X)>no", "if not exist no echo none",
	"(", "echo a (note^)", "if 1==1 echo (b^)", ")>f", "type f", "echo \"(q)>f\"", "(echo on line & echo 2)>f&type f",
	"(echo p 2>nul)>f 2>nul", "type f", "@echo on", "@(echo X)>f", "(echo Y)>f", "(echo Z)|find \"Z\"", "@echo off",
	"goto :eof", ":sub", "(echo in sub & exit /b)>f",
}

const blockOutput = `X
a 
b
a 
b
c
shown
to the screen
to the file
first
third
1
2
second
no
yes
2
2
1
2
3
4
5
6
The system cannot find the file specified.
out
The system cannot find the path specified.
input
input
two
four
a 
1 
end
after
before 
in sub 
inner 
\(a\) 
x \(y\)
none
a \(note\)
\(b\)
"\(q\)>f"
on line 
2
p 

C:\\work>\(echo Y\)>f 

C:\\work>\(echo Z\)\|find "Z" 
Z
`
