// An executor's end of the one stream: frames out, and a wait for the frame that one looks for.
import { randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";

const WAIT_MILLISECONDS_MAX = 20_000;

export class Session {
  #stream;
  #frames = [];
  #arrived = new EventEmitter();
  #heartbeatNumber = 0;
  #ended;

  constructor(stream) {
    this.incarnation = randomUUID();
    this.#stream = stream;
    this.#ended = once(stream, "end");
    this.#ended.catch(() => {}); // whoever waits sees it
    stream.on("error", (error) => this.#arrived.emit("error", error));
    this.#arrived.on("error", () => {}); // while nobody waits, the next write or wait will tell
    stream.on("data", (frame) => {
      this.#frames.push(frame);
      this.#arrived.emit("frame");
    });
  }

  send(frame) {
    this.#stream.write(frame);
  }

  /** Send a heartbeat, and return the number under which the service will record it. */
  heartbeat(beat) {
    this.#heartbeatNumber += 1;
    this.send({ heartbeats: [beat], heartbeat_number: this.#heartbeatNumber });
    return this.#heartbeatNumber;
  }

  /** Return the next frame that fits; those before it are passed over. */
  async until(fits) {
    const signal = AbortSignal.timeout(WAIT_MILLISECONDS_MAX);
    for (;;) {
      while (this.#frames.length > 0) {
        const frame = this.#frames.shift();
        if (fits(frame)) {
          return frame;
        }
      }
      await once(this.#arrived, "frame", { signal });
    }
  }

  /** Say goodbye, close this end, and wait for the service to close its own. */
  async goodbye() {
    this.send({ goodbye: {} });
    this.#stream.end();
    await this.#ended;
  }
}
