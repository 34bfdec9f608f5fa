// What servers use of Node. Each check prints its name; the first that fails ends the program.
'use strict';
const assert = require('assert');
const { once } = require('events');
const fs = require('fs');
const http = require('http');
const https = require('https');
const os = require('os');
const path = require('path');
const zlib = require('zlib');
const cluster = require('cluster');
const dns = require('dns').promises;
const { execFileSync, spawn, fork } = require('child_process');
const { Worker } = require('worker_threads');

if (cluster.isWorker) {
  http.createServer((_, response) => response.end(String(process.pid))).listen(8090);
  return;
}
if (process.argv[2] === 'child') {
  process.on('message', (m) => process.send(m + 1));
  return;
}

const here = path.join(__dirname, '');
const checks = {
  async http() {
    const server = http.createServer((request, response) => request.pipe(response)).listen(0);
    await once(server, 'listening');
    const answer = await fetch(`http://127.0.0.1:${server.address().port}`, { method: 'POST', body: 'x'.repeat(1e6) });
    assert.equal((await answer.text()).length, 1e6);
    server.close();
  },
  async tls() {
    const key = fs.readFileSync(path.join(here, 'key.pem')), cert = fs.readFileSync(path.join(here, 'cert.pem'));
    const options = { key, cert, ca: cert, requestCert: true, rejectUnauthorized: true };
    const server = https.createServer(options, (request, response) => {
      response.end(request.socket.getPeerCertificate().subject.CN);
    }).listen(0);
    await once(server, 'listening');
    const request = https.get({ port: server.address().port, host: 'localhost', ...options });
    const [response] = await once(request, 'response');
    let body = '';
    for await (const data of response) body += data;
    assert.equal(body, 'localhost');
    server.close();
  },
  async dns() {
    assert.match((await dns.lookup('kubernetes.default.svc.cluster.local')).address, /^10\./);
    assert.match((await dns.resolve4('kubernetes.default.svc.cluster.local'))[0], /^10\./);
    await assert.rejects(dns.lookup('nonesuch.default.svc.cluster.local'), { code: 'ENOTFOUND' });
  },
  async workers() {
    const code = 'require("worker_threads").parentPort.postMessage(6 * 7)';
    const worker = new Worker(code, { eval: true });
    assert.equal((await once(worker, 'message'))[0], 42);
  },
  async children() {
    assert.match(execFileSync('cmd', ['/c', 'ver']).toString(), /Microsoft Windows/);
    const child = spawn('cmd', ['/c', 'findstr b & exit 5'], { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.end('abc\r\nxyz\r\n');
    let out = '';
    child.stdout.on('data', (data) => { out += data; });
    assert.equal((await once(child, 'close'))[0], 5);
    assert.equal(out.trim(), 'abc');
    const ipc = fork(__filename, ['child']);
    ipc.send(41);
    assert.equal((await once(ipc, 'message'))[0], 42);
    ipc.kill();
    await once(ipc, 'exit');
  },
  async output() {
    const child = spawn(process.execPath, ['-e', 'process.stdout.write("x".repeat(5e6))']);
    let n = 0;
    for await (const data of child.stdout) n += data.length;
    assert.equal(n, 5e6);
  },
  async watch() {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'w-'));
    const watcher = fs.watch(dir);
    const changed = once(watcher, 'change');
    fs.writeFileSync(path.join(dir, 'a'), 'a');
    assert.equal((await changed)[1], 'a');
    watcher.close();
  },
  async gzip() {
    const data = Buffer.alloc(1e6, 'mullion');
    assert.deepEqual(zlib.gunzipSync(zlib.gzipSync(data)), data);
    assert.deepEqual(zlib.brotliDecompressSync(zlib.brotliCompressSync(data)), data);
  },
  async cluster() {
    const worker = cluster.fork();
    await once(worker, 'listening');
    const pid = await (await fetch('http://127.0.0.1:8090')).text();
    assert.equal(Number(pid), worker.process.pid);
    worker.kill();
    await once(worker, 'exit');
  },
  async files() {
    const file = path.join(os.tmpdir(), 'f');
    fs.writeFileSync(file, 'a');
    fs.appendFileSync(file, 'b');
    fs.renameSync(file, file + '2');
    assert.equal(fs.readFileSync(file + '2', 'utf8'), 'ab');
    fs.rmSync(file + '2');
    assert.throws(() => fs.readFileSync(file), { code: 'ENOENT' });
    assert.ok(fs.readdirSync('C:\\').includes('Windows'));
  },
  async system() {
    assert.equal(process.platform, 'win32');
    assert.match(os.version(), /^Windows Server/);
    assert.ok(os.totalmem() > 1e8 && os.cpus().length > 0);
    assert.ok(os.userInfo().username.startsWith('Container'));
  },
};

(async () => {
  for (const [name, check] of Object.entries(checks)) {
    await check().catch((error) => { console.log(`${name}: ${error.stack}`); process.exit(1); });
    console.log(name);
  }
  console.log('all checks passed');
})();
