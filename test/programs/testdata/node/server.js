require('http').createServer((request, response) => {
  console.log(request.method, request.url);
  response.end(`hello from node ${request.url}\n`);
}).listen(8080, () => console.log('listening'));
