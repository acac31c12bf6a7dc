/** A collector of traces that accepts OTLP over HTTP in JSON, the format of the exporters. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

interface CollectedSpan {
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
}

export interface Collector {
  readonly url: string;
  /** The spans in the order of their arrival. */
  readonly spans: readonly CollectedSpan[];
  close(): void;
}

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly { key: string; value: { stringValue?: string } }[] };
    readonly scopeSpans: readonly { readonly spans: readonly Omit<CollectedSpan, "service">[] }[];
  }[];
}

export async function startCollector(): Promise<Collector> {
  const spans: CollectedSpan[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Export;
    for (const { resource, scopeSpans } of body.resourceSpans) {
      const service =
        resource.attributes.find(({ key }) => key === "service.name")?.value.stringValue ?? "unknown";
      for (const { spans: some } of scopeSpans)
        for (const { name, traceId, spanId, parentSpanId } of some)
          spans.push({ service, name, traceId, spanId, parentSpanId });
    }
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, spans, close: () => void server.close() };
}
