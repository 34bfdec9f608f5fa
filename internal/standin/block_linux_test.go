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
	"if 1==2 (echo yes) else (echo no)>f", "type f", "if 1==1 (echo yes)>f", "type f",
	"for %%i in (1 2) do (", "  echo %%i", ")>f", "type f", "for %%i in (1 2) do (echo %%i)>>f", "type f",
	"(for %%i in (3 4) do @echo %%i)>f", "type f", "for %%i in (5 6) do (echo %%i)>%%i.txt", "type 5.txt 6.txt 2>nul",
	"for %%i in (7 8) do @(echo %%i&echo -)", "if 1==2 @(echo yes) else @(echo no)",
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
7
-
8
-
no
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

// chainBatch joins commands by && and ||. In its output no line says "no".
var chainBatch = []string{
	// Commands of cmd.exe, and programs.
	"type nofile 2>nul && echo no", "type nofile 2>nul || echo 1", "cd . && echo 2", "cd . || echo no",
	"cd nodir 2>nul || echo 3", "ver >nul && ver >nul && echo 4",
	"nocommand 2>nul || echo 5", "mkdir sub 2>nul || echo 6",
	"cmd /c exit 3 && echo no", "cmd /c exit 3 || echo 7", "cmd /c exit -1 || echo 8", "cmd /c exit 0&&echo 9",
	"echo x | findstr y >nul || echo 10", "echo x | findstr x >nul && echo 11",
	"(echo a & echo b) | findstr b && echo 11",
	"type one | findstr o | find \"ne\" && echo 11", "if not exist nofile cd . && echo 12",
	"if exist nofile cd . && echo no", "set UNDEFINED >nul 2>nul || echo 13", "del nofile 2>nul && echo 14",
	// The one before decides, not ERRORLEVEL, which cd clears.
	"cmd /c exit 1", "echo 15 && echo 16", "cd . || echo no", "echo %ERRORLEVEL%", "cmd /c exit 1 & echo 17 && echo 18",
	"cmd /c exit 5 || echo 19", "if errorlevel 5 echo 20",
	// && before ||, both before &.
	"type nofile 2>nul && echo no || echo 21", "cd . && echo 22 || echo no", "cd . || echo no && echo no",
	"type nofile 2>nul || echo 23 && echo 24", "type nofile 2>nul && echo no & echo 25",
	"type nofile 2>nul || type nofile 2>nul || echo 26", "cd . && type nofile 2>nul || echo 27 & echo 28",
	"type nofile 2>nul && echo no && echo no || echo 29 && echo 30",
	// Blocks, over several lines too, with redirections and parentheses in a text.
	"(type nofile 2>nul) || echo 31", "(cd . & type nofile 2>nul) || echo 32", "(type nofile 2>nul & cd .) && echo 33",
	"cd . && (", "  echo 34", "  type nofile 2>nul || echo 35", ") || echo no",
	"if exist nofile (cd . && echo no) else (cd . && echo 36)", "if 1==1 (type nofile 2>nul || echo 37)",
	"(echo in f)>f && type f", "type nofile 2>nul || (echo 38)>f", "type f", "for %%i in (39 40) do cd . && echo %%i",
	"for %%i in (1 2) do type nofile 2>nul && echo no", "echo (a) && echo b) (c", `echo "x && y"`, "echo x ^&^& y",
	"rem a && echo no", "cd .&&echo 41>f&&type f",
	"@echo on", "cd . && echo Y || echo no", "@echo off",
	// What leaves the line.
	"cd . && goto on", "echo no", ":on", "call :fails || echo 42", "call :works && echo 43", "call :fails && echo no",
	"type nofile 2>nul || exit /b 7", "echo no", "goto :eof",
	":fails", "exit /b 4", ":works", "exit /b 0",
}

const chainOutput = `1
2
3
4
5
6
7
8
9
10
11
b
11
one
11
12
13
14
15 
16
0
17 
18
19
20
21
22 
23 
24
25
26
27 
28
29 
30
31
32
33
34
35
36
37
in f
38
39
40
\(a\) 
b\) \(c
"x && y"
x && y
41

C:\\work>cd \. && echo Y \|\| echo no 
Y 
42
43
`

// pipeBatch has blocks that read from commands. In its output no line says "no".
var pipeBatch = []string{
	"echo one | (findstr o & echo two)", "echo one | findstr o | (findstr n & echo three)",
	"(echo a & echo b) | findstr b | (findstr b & echo c)", "echo a | (findstr a & echo d) | (findstr d & echo e)",
	"(echo 1 & echo 2) | (findstr 1) | (findstr 1 & echo 3)",
	"type one 2>nul | (findstr n & echo 4)", "type nofile 2>&1 | (findstr system & echo 5)",
	"echo x>f | (findstr x & echo 6)", "type f", "echo (a) | (findstr a & echo 7)",
	"echo 8 | (", "findstr 8", "echo 9", ")", "cd . & @echo 10 | (findstr 1 & echo 11)",
	// With if, for, && and ||.
	"if 1==2 echo x | (findstr x & echo no)", "if 1==1 echo x | (findstr x & echo 12)",
	"if 1==2 (echo x) | (findstr x & echo no)", "if 1==1 (echo y | (findstr y & echo 13)) else (echo no)",
	"for %%i in (1 2) do echo %%i | (findstr 1 & echo -)", "for %%i in (14 15) do @echo %%i | (findstr 1 & echo .)",
	"echo x | (findstr y || echo 16)", "echo x | (findstr x >nul) && echo 17", "echo x | (findstr y) && echo no",
	"cd . && echo 18 | (findstr 18 & echo 19) && echo 20",
	// @ within a line.
	"for %%i in (21 22) do @cd . && echo %%i", "if 1==1 @cd . && @echo 23",
	"@echo on", "echo a | (findstr a)", "(echo b) | (findstr b)", "@echo off",
}

const pipeOutput = `one 
two
one 
three
b
c
d
e
1 
3
one
4
The system cannot find the file specified.
5
6
x 
\(a\) 
7
8 
9
10 
11
x 
12
y 
13
1 
-
-
14 
.
15 
.
16
17
18 
19
20
21
22
23

C:\\work>echo a \| \(findstr a\) 
a 

C:\\work>\(echo b\) \| \(findstr b\) 
b
`

// branchBatch has several commands, the later ones blocks, behind conditions that are false. No line is lost and none
// of the output says "no".
var branchBatch = []string{
	"if 1==2 (echo no) & (echo no)", "echo 1", "if 1==2 echo no & if 1==1 echo no", "echo 2",
	"if 1==2 (echo no) & for %%i in (1) do echo no", "echo 3", "if 1==1 (echo 4) & (echo 5)", "echo 6",
	"if 1==2 (echo no) else (echo 7) & (echo 8)", "if 1==1 (echo 9) else (echo no) & (echo no)", "echo 10",
	"if 1==2 echo no && echo no & (echo no)", "echo 11", "if 1==1 if 1==2 (echo no) & (echo no)", "echo 12",
	"if 1==1 (echo 13) & if 1==2 (echo no) & (echo no)", "echo 14",
	"if 1==1 (echo 15) & if 1==2 (echo no) else (echo 16) & (echo 17)",
	"if 1==1 echo a (b) & (echo 18) & echo c)", "(", "if 1==2 (", "echo no", ") & (echo no)", "echo 19", ") & echo 20",
	"for %%i in (1 2) do if %%i==1 (echo 21) & (echo 22)", "@echo on", "if 1==2 (echo no) & (echo no)", "@echo off",
}

const branchOutput = `1
2
3
4
5
6
7
8
9
10
11
12
13
14
15
16
17
a \(b\) 
18
c\)
19
20
21
22

C:\\work>if 1==2 \(echo no\) & \(echo no\) 
`

// parensBatch has parentheses in texts that an if runs. In its output no line says "no".
var parensBatch = []string{
	"if exist one echo 1 (it)", "if not exist one echo (no)", "if 1==2 (echo no) else echo 2 (it)",
	"if 1==1 (", "  echo 3 (it^)", "  for %%i in (4 5) do echo %%i (it^)", "  if 1==1 (echo 6) else (echo no)",
	") else (", "  echo (no^)", ")",
	"for %%i in (7 no) do if %%i==7 echo %%i (it) & echo (8)", "for %%i in (9) do if 1==1 (echo %%i) else (echo no)",
	"set P=C:\\Files (x86)", "if 1==1 echo %P%", "if 1==1 (echo \"%P%\")", "if 1==1 set A=(10)", "echo %A%",
	"if 1==1 set /a A=(10+1) * 1", "echo %A%", "if 1==1 echo (12)>f& type f", "if 1==1 rem (no", "call :sub (14)",
	"if 1==1 >f (echo 15)", "type f", "if 1==1 cd . && (echo 16) & (echo 17)", "if \"(\"==\"(\" echo 18 \"(\" (it)",
	"if 1==1 if 1==1 echo 19 (it) (it)", "if 1==1 @echo 20 (it)", "if 1==1 echo 21 ^(it)", "goto :eof",
	":sub", "if 1==1 echo 13 %1 (it)",
}

const parensOutput = `1 \(it\)
2 \(it\)
3 \(it\)
4 \(it\)
5 \(it\)
6
7 \(it\) 
\(8\)
9
C:\\Files \(x86\)
"C:\\Files \(x86\)"
\(10\)
11
\(12\)
13 \(14\) \(it\)
15
16
17
18 "\(" \(it\)
19 \(it\) \(it\)
20 \(it\)
21 \(it\)
`
