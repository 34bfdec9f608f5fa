// Answers each request with a few bytes, on a port that the argument names; prints the port.
const server = require('http').createServer((_, response) => response.end('hello\n'));
server.listen(Number(process.argv[2]), () => console.log(server.address().port));
