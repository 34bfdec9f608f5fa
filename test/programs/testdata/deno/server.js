Deno.serve({ port: 8080, hostname: '0.0.0.0' }, (request) => {
  return new Response(`hello from deno ${new URL(request.url).pathname}`);
});
