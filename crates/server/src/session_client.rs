//! The connection's client as two parties hold it: the statement that runs gives it rows, and the session sends its notices
//! past that statement ([`Outlet`]).
//!
//! Both are the connection's own thread. The rule: nobody keeps what [`SessionClient::wire`] lends while the session works, for
//! its notices would have to wait. In the middle of a row they do wait.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use cairn_sql::{Client, Format, Outlet, ResultShape};
use cairn_types::{Datum, Env, Error, Oid, Result};

use crate::client::WireClient;

#[derive(Clone)]
pub struct SessionClient(Rc<RefCell<WireClient>>);

impl SessionClient {
    pub fn new(client: WireClient) -> Self {
        SessionClient(Rc::new(RefCell::new(client)))
    }

    /// The stream and its output, for a moment.
    pub fn wire(&self) -> RefMut<'_, WireClient> {
        self.0.borrow_mut()
    }

    /// The same client, for the session's notices.
    pub fn outlet(&self) -> Rc<dyn Outlet> {
        Rc::new(self.clone())
    }
}

impl Outlet for SessionClient {
    fn notice(&self, notice: &Error) -> Result<bool> {
        match self.0.try_borrow_mut() {
            Ok(mut wire) => {
                wire.notice(notice);
                wire.flush()?;
                Ok(true)
            }
            Err(_) => Ok(false),
        }
    }
}

impl Client for SessionClient {
    fn row_description(&mut self, shape: &ResultShape) {
        self.wire().row_description(shape);
    }

    fn no_data(&mut self) {
        self.wire().no_data();
    }

    fn parameter_description(&mut self, types: &[Oid]) {
        self.wire().parameter_description(types);
    }

    fn row(&mut self, shape: &ResultShape, env: &dyn Env, row: &[Datum]) -> Result<()> {
        self.wire().row(shape, env, row)
    }

    fn command_complete(&mut self, tag: &str) {
        self.wire().command_complete(tag);
    }

    fn empty_query(&mut self) {
        self.wire().empty_query();
    }

    fn portal_suspended(&mut self) {
        self.wire().portal_suspended();
    }

    fn notice(&mut self, notice: &Error) {
        self.wire().notice(notice);
    }

    fn parameter_status(&mut self, name: &str, value: &str) {
        self.wire().parameter_status(name, value);
    }

    fn wants_flush(&self) -> bool {
        self.0.borrow().wants_flush()
    }

    fn flush(&mut self) -> Result<()> {
        self.wire().flush()
    }

    fn copy_in_begin(&mut self, format: Format, columns: usize) -> Result<()> {
        self.wire().copy_in_begin(format, columns)
    }

    fn copy_in_read(&mut self, buffer: &mut Vec<u8>) -> Result<bool> {
        self.wire().copy_in_read(buffer)
    }

    fn copy_out_begin(&mut self, format: Format, columns: usize) -> Result<()> {
        self.wire().copy_out_begin(format, columns)
    }

    fn copy_out_data(&mut self, data: &[u8]) -> Result<()> {
        self.wire().copy_out_data(data)
    }

    fn copy_out_end(&mut self) -> Result<()> {
        self.wire().copy_out_end()
    }

    fn function_result(&mut self, ty: Oid, format: Format, env: &dyn Env, value: &Datum) -> Result<()> {
        self.wire().function_result(ty, format, env, value)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use super::*;
    use crate::stream::{Socket, Stream};

    #[test]
    fn a_notice_waits_while_somebody_writes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = Socket(Arc::new(listener.accept().unwrap().0));
        let client = SessionClient::new(WireClient::new(Stream::new(near), 1000));
        let outlet = client.outlet();
        let writing = client.wire();
        assert!(!outlet.notice(&Error::notice("too early")).unwrap());
        drop(writing);
        client.wire().command_complete("BEFORE");
        assert!(outlet.notice(&Error::notice("now")).unwrap());
        drop((client, outlet));
        let mut sent = Vec::new();
        far.read_to_end(&mut sent).unwrap();
        let text = String::from_utf8_lossy(&sent);
        assert!(text.starts_with('C') && text.contains("BEFORE") && text.contains("now"), "{text}");
        assert!(!text.contains("too early"), "{text}");
    }
}
