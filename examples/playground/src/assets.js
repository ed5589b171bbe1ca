// Files that the build put into scripts: see build.mjs.

const waiting = new Map(); // name -> what to do with its text

globalThis.playgroundAsset = (name, text) => waiting.get(name)?.(text);

const loaded = new Map(); // name -> promise of its bytes

async function load(name) {
  const script = document.createElement("script");
  const text = await new Promise((resolve, reject) => {
    waiting.set(name, resolve);
    script.src = `assets/${name}.js`;
    script.onerror = () => reject(new Error(`assets/${name}.js cannot be loaded`));
    document.head.append(script);
  });
  waiting.delete(name);
  script.remove();
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** The bytes of a file, loaded once. What is given is shared: do not transfer it. */
export function bytes(name) {
  if (!loaded.has(name)) {
    const promise = load(name);
    promise.catch(() => loaded.delete(name)); // the next call tries again
    loaded.set(name, promise);
  }
  return loaded.get(name);
}

/** What the build knows about a file: {bytes, loaded, sha256}. */
export const about = (name) => ASSETS[name];

export const runtimeVersion = RUNTIME_VERSION;
