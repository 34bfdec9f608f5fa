// Loads libraries that are addons of Node, and calls some.
'use strict';
const assert = require('assert');
const addon = (name) => require(`C:/app/${name}`);
assert.match(addon('@duckdb/node-bindings-win32-x64/duckdb.node').library_version(), /^v1/);
assert.ok(Object.keys(addon('@libsql/win32-x64-msvc/index.node')).length > 0);
assert.ok(Object.keys(addon('@lmdb/lmdb-win32-x64/node.napi.node')).length > 0);
assert.ok(Object.keys(addon('@rollup/rollup-win32-x64-msvc/rollup.win32-x64-msvc.node')).length > 0);
assert.match(addon('@img/sharp-win32-x64/lib/sharp-win32-x64-0.35.5.node').libvipsVersion().semver, /^8\./);
console.log('all addons loaded');
