// A whole executor in one process of Node: it keeps its leases alive while handlers work, comes back after a break with
// what it holds, moves when the service drains, and finishes or gives back at a SIGTERM.
//
// usage: BATON_EXECUTION_ADDRESS=127.0.0.1:7420 node executor.mjs
//
// What one process can't do: kill a handler that does not stop, or keep leases alive while a handler computes without a
// pause. An executor whose handlers may do that runs them in a process or worker thread of their own.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { HeldLease, milliseconds } from "./held_lease.mjs";
import { synthetic } from "./synthetic.mjs";

const ADDRESS = process.env.BATON_EXECUTION_ADDRESS ?? "127.0.0.1:7420";
const GRACE_MILLISECONDS = 1000 * Number(process.env.BATON_GRACE_SECONDS ?? 25);
const RECONNECT_MILLISECONDS = { first: 100, max: 1000 * Number(process.env.BATON_RECONNECT_SECONDS_MAX ?? 5) };
const ANSWER_MILLISECONDS_MAX = 10_000;
const SNAPSHOT_MILLISECONDS_MAX = 60_000;
const AT_ONCE = 16;
const QUEUE = "drill";
const HANDLERS = { synthetic };
const CAPABILITIES = [{ job_type: "synthetic", input_schema_versions: [1], output_schema_versions: [1] }];
const PIECES_PER_FRAME = 50; // of 64 KiB at most: under the 4 MiB of a frame

const definitions = loadSync("baton/v1/execution_service.proto", {
  includeDirs: [fileURLToPath(new URL("../../protos", import.meta.url))],
  keepCase: true, // names as the protos have them
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});
const { ExecutionService } = grpc.loadPackageDefinition(definitions).baton.v1;

function dial() {
  const options = {
    "grpc.enable_http_proxy": 0, // nothing of the environment's proxies is meant for this address
    "grpc.use_local_subchannel_pool": 1, // so that another session may come out at another replica
    "grpc.keepalive_time_ms": 10_000,
    "grpc.keepalive_timeout_ms": 5_000,
  };
  return new ExecutionService(ADDRESS, grpc.credentials.createInsecure(), options);
}

class Executor {
  #incarnation = randomUUID(); // new at each start: the name is no identity
  #held = new Map();
  #stream;
  #heartbeatNumber = 0;
  #heartbeatTimer;
  #creditsGiven = 0; // and not used yet
  #draining = false;
  #leaving = false;
  #snapshots = dial();

  /** Open one session after the other, until this executor leaves. */
  async run() {
    for (let failures = 0; !this.#leaving; ) {
      const opened = Date.now();
      try {
        await this.#session();
      } catch (error) {
        console.error(`session: ${error.message}`);
      }
      failures = Date.now() - opened > 5_000 ? 0 : failures + 1;
      if (!this.#leaving) {
        await sleep(wait(failures));
      }
    }
    this.#snapshots.close();
  }

  /** Take no more leases, finish what can be finished, give the rest back, and say goodbye. */
  async leave() {
    this.#draining = true;
    const limit = Date.now() + GRACE_MILLISECONDS;
    await this.#emptied(limit);
    for (const held of this.#held.values()) {
      held.stop("draining");
    }
    await this.#emptied(Date.now() + 5_000);
    this.#leaving = true;
    this.#send({ goodbye: {} });
    this.#stream?.end();
  }

  async #emptied(limit) {
    while (this.#held.size > 0 && Date.now() < limit) {
      await sleep(20);
    }
  }

  /** Last as long as a session does: until it breaks, or the service asks to go elsewhere. */
  #session() {
    const client = dial();
    const before = this.#stream;
    const stream = client.OpenSession();
    return new Promise((resolve, reject) => {
      const silence = setTimeout(() => stream.cancel(), ANSWER_MILLISECONDS_MAX);
      const over = (error) => {
        clearTimeout(silence);
        client.close();
        if (this.#stream === stream) {
          this.#stream = undefined;
        }
        error ? reject(error) : resolve();
      };
      stream.on("error", over);
      stream.on("end", () => over());
      stream.on("data", (frame) => {
        if (frame.welcome) {
          clearTimeout(silence);
          this.#begin(stream, frame.welcome);
          before?.cancel(); // it has answered until now
        }
        if (this.#stream === stream) {
          this.#receive(frame);
        }
        if (frame.drain) {
          resolve(); // the next session begins while this one still answers
        }
      });
      stream.write({ hello: this.#hello() });
    });
  }

  #hello() {
    return {
      executor_name: "node",
      incarnation_id: this.#incarnation,
      runtime: `node/${process.versions.node}`,
      capabilities: CAPABILITIES,
      held: [...this.#held.values()].map((held) => held.ref),
    };
  }

  /** Tell a new session everything that the last one may not have taken in. */
  #begin(stream, welcome) {
    this.#stream = stream;
    for (const ref of welcome.lost) {
      this.#lose(ref);
    }
    this.#creditsGiven = 0;
    this.#giveCredits();
    this.#beat();
    this.#beatAllLater();
    for (const held of this.#held.values()) {
      for (let at = 0; at < held.unrecorded.length; at += PIECES_PER_FRAME) {
        this.#send({ pieces: held.unrecorded.slice(at, at + PIECES_PER_FRAME) });
      }
      if (held.report) {
        this.#send({ reports: [held.report] });
      }
    }
  }

  #receive(frame) {
    for (const answer of frame.answers) {
      this.#held.delete(name(answer.lease)); // whatever the answer is
    }
    for (const recorded of frame.pieces_recorded) {
      this.#held.get(name(recorded.lease))?.piecesRecorded(recorded.number);
    }
    for (const ref of frame.lost) {
      this.#lose(ref);
    }
    for (const lease of frame.leases) {
      this.#take(lease);
    }
    for (const ref of frame.cancels) {
      this.#send({ cancels_seen: [ref] }); // also of a lease that is not held, or it would be pushed for ever
      this.#held.get(name(ref))?.stop("cancel");
    }
    this.#giveCredits();
  }

  #take(lease) {
    this.#creditsGiven -= 1;
    const held = new HeldLease(lease, {
      onEnd: (ended) => this.#ended(ended),
      onPiece: (piece) => this.#send({ pieces: [piece] }),
    });
    this.#held.set(held.name, held);
    const reason = this.#draining ? "DRAINING" : able(lease) ? undefined : "REFUSED";
    if (reason) {
      held.report = { lease: held.ref, give_back: { reason: `GIVE_BACK_REASON_${reason}` } };
      this.#ended(held);
      return;
    }
    this.#beat([held]); // which accepts it
    if (this.#heartbeatTimer === undefined) {
      this.#beatAllLater();
    }
    held.run(HANDLERS[lease.job_type], () => this.#input(lease));
  }

  /** Return the input that came with the lease, or fetch it; a document is fetched and not looked at. */
  async #input(lease) {
    if (lease.document === null && (lease.input.length > 0 || lease.input_bytes === 0)) {
      return lease.input;
    }
    for (let failures = 1; ; failures += 1) {
      try {
        return await this.#fetched({ job_id: lease.job_id, token: lease.token });
      } catch (error) {
        if (error.code !== grpc.status.UNAVAILABLE) {
          throw error;
        }
        await sleep(wait(failures));
      }
    }
  }

  async #fetched(ref) {
    const deadline = Date.now() + SNAPSHOT_MILLISECONDS_MAX;
    const chunks = [];
    for await (const part of this.#snapshots.GetSnapshot({ lease: ref }, { deadline })) {
      if (part.part === "input_chunk") {
        chunks.push(part.input_chunk);
      }
    }
    return Buffer.concat(chunks);
  }

  #ended(held) {
    if (held.report && this.#held.has(held.name)) {
      this.#send({ reports: [held.report] });
    }
    this.#giveCredits();
  }

  #lose(ref) {
    const held = this.#held.get(name(ref));
    this.#held.delete(name(ref));
    held?.stop("lost");
  }

  #giveCredits() {
    const running = [...this.#held.values()].filter((held) => !held.report).length;
    const count = AT_ONCE - running - this.#creditsGiven;
    if (count > 0 && this.#stream && !this.#draining) {
      this.#creditsGiven += count;
      this.#send({ credits: [{ queue: QUEUE, count }] });
    }
  }

  #beat(leases = [...this.#held.values()]) {
    if (leases.length > 0) {
      this.#heartbeatNumber += 1;
      this.#send({ heartbeats: leases.map((held) => held.heartbeat()), heartbeat_number: this.#heartbeatNumber });
    }
  }

  /** Send heartbeats of all leases in the shortest interval among them, whatever comes in between. */
  #beatAllLater() {
    clearTimeout(this.#heartbeatTimer);
    this.#heartbeatTimer = undefined;
    const intervals = [...this.#held.values()].map((held) => milliseconds(held.lease.heartbeat_interval));
    if (intervals.length > 0) {
      this.#heartbeatTimer = setTimeout(() => {
        this.#beat();
        this.#beatAllLater();
      }, Math.min(...intervals));
    }
  }

  #send(frame) {
    this.#stream?.write(frame); // without a session, the next one is told
  }
}

/** How long to wait after so many failures: all of it by chance, so that executors come apart. */
function wait(failures) {
  const { first, max } = RECONNECT_MILLISECONDS;
  return Math.min(max, first * 2 ** Math.min(failures, 10)) * Math.random();
}

function able(lease) {
  return CAPABILITIES.some(
    (each) =>
      each.job_type === lease.job_type &&
      each.input_schema_versions.includes(lease.input_schema_version) &&
      each.output_schema_versions.includes(lease.output_schema_version),
  );
}

function name(ref) {
  return `${ref.job_id} ${ref.token}`;
}

const executor = new Executor();
process.once("SIGTERM", () => executor.leave());
await executor.run();
process.exit(0);
