// The contract of every bus. A test file calls this with a function that starts the server, and adds the cases of that server alone
// (files, certificates, rights).

import { describe, test } from "vitest";
import { BusBench, type ContractGroup, type StartTestedServer, withFleetStreams } from "./bus/bench.ts";
import { connectionCases } from "./bus/connections.ts";
import { consumeCases } from "./bus/consuming.ts";
import { directRequestCases } from "./bus/direct-requests.ts";
import { messageIdCases } from "./bus/message-ids.ts";
import { objectCases, prepareObjects } from "./bus/objects.ts";
import { preparePublishing, publishCases } from "./bus/publishing.ts";
import { requestCases } from "./bus/requests.ts";
import { settlingCases } from "./bus/settling.ts";
import { streamCases } from "./bus/streams.ts";
import { viewCases } from "./bus/views.ts";

const GROUPS: Readonly<Record<string, ContractGroup>> = {
  requests: { cases: requestCases },
  "direct requests": { cases: directRequestCases, prepare: withFleetStreams },
  connections: { cases: connectionCases },
  streams: { cases: streamCases },
  publishing: { cases: publishCases, prepare: preparePublishing },
  "message ids": { cases: messageIdCases, prepare: withFleetStreams },
  consuming: { cases: consumeCases, prepare: withFleetStreams },
  settling: { cases: settlingCases, prepare: withFleetStreams },
  views: { cases: viewCases },
  objects: { cases: objectCases, prepare: prepareObjects },
};

export function busContract(name: string, start: StartTestedServer): void {
  describe(`bus contract: ${name}`, () => {
    for (const [group, { cases, prepare }] of Object.entries(GROUPS)) {
      describe(group, () => {
        const bench = new BusBench(start, prepare);
        for (const [title, run] of Object.entries(cases)) test(title, () => run(bench));
      });
    }
  });
}
