// A program that ends in the ways of .NET, and a server.
using System;
using System.Runtime.InteropServices;
using System.Threading;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.DependencyInjection;

static class App
{
    static int Main(string[] args)
    {
        switch (args[0])
        {
        case "hello":
            Console.WriteLine("hello " + string.Join("|", args) + " " + RuntimeInformation.OSDescription.Trim());
            return 3;
        case "read":
            Console.WriteLine(Console.In.ReadToEnd().Length);
            return 0;
        case "exit":
            Environment.Exit(-5);
            return 0;
        case "throw":
            throw new InvalidOperationException("thrown");
        case "null":
            string s = null;
            try { Console.WriteLine(s.Length); }
            catch (NullReferenceException e) { Console.WriteLine(e.Message); }
            int[] a = { 1, 0 };
            try { Console.WriteLine(a[0] / a[1]); }
            catch (DivideByZeroException e) { Console.WriteLine(e.Message); }
            return 0;
        case "failfast":
            Environment.FailFast("failed fast");
            return 0;
        case "serve":
            new WebHostBuilder()
                .UseKestrel()
                .UseUrls("http://0.0.0.0:" + args[1])
                .Configure(app =>
                {
                    var life = app.ApplicationServices.GetRequiredService<IApplicationLifetime>();
                    life.ApplicationStopping.Register(() => { Console.WriteLine("stopping"); Thread.Sleep(500); });
                    life.ApplicationStopped.Register(() => Console.WriteLine("stopped"));
                    app.Run(c => c.Response.WriteAsync("kestrel " + c.Request.Path));
                })
                .Build()
                .Run();
            Console.WriteLine("main ends");
            return 0;
        }
        return 1;
    }
}
