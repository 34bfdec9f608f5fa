using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .worker)],
  sockets = [(name = "http", address = "*:8080", http = (), service = "main")]
);
const worker :Workerd.Worker = (
  serviceWorkerScript = "addEventListener('fetch', e => e.respondWith(new Response('hello from workerd')))",
  compatibilityDate = "2026-01-01"
);
