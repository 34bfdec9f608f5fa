Bun.serve({ port: 8080, fetch: (request) => new Response(`hello from bun ${new URL(request.url).pathname}`) });
console.log('listening');
